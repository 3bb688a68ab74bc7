"""`python -m tools.manifests` writes the generated files of `deploy/`."""

from tools.manifests.files import DEPLOY, files

for path, text in files().items():
    (DEPLOY / path).write_text(text)
