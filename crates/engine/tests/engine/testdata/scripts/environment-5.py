"""By the package decouple."""
from decouple import config

TEMPERATURE = config("TEMPERATURE", default=0.7, cast=float)
MODEL = config("MODEL", default="small")
SECRET = config("SECRET_KEY")
