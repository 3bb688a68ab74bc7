"""Writes the files of deploy that are made from other things."""

from tools.manifests.files import DEPLOY, files

for path, text in files().items():
    (DEPLOY / path).write_text(text)
