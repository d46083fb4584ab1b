// Every page: theme, keys, live news.
