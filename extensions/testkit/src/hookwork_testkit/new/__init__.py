"""`hookwork new`: distributions written from the templates beside this module.

A template is a file of `string.Template` text whose name ends in ``.tmpl``. Its path below ``templates/KIND`` is its
path in the new distribution; a part ``PACKAGE`` of it stands for the import package.
"""
