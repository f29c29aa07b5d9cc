// A chosen file is read here, into the form: what is sent is its text.
document.getElementById("file").addEventListener("change", async ({ target }) => {
  const [file] = target.files;
  if (file) document.getElementById("config").value = await file.text();
});
