"""The file is opened as a context."""
lr = 0.1
_hidden = 3
with open("configurator.py") as file:
    exec(file.read())
