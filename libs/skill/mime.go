package skill

import (
	"net/http"
	"path"
	"strings"
	"unicode/utf8"
)

// textTypes are the types of texts that cannot be recognised by their beginning. The machine's
// own tables are not used: instances of a service on two machines must report the
// same.
var textTypes = map[string]string{
	".css":  "text/css",
	".csv":  "text/csv",
	".htm":  "text/html",
	".html": "text/html",
	".js":   "text/javascript",
	".json": "application/json",
	".md":   "text/markdown",
	".mjs":  "text/javascript",
	".py":   "text/x-python",
	".sh":   "text/x-shellscript",
	".svg":  "image/svg+xml",
	".toml": "application/toml",
	".tsv":  "text/tab-separated-values",
	".txt":  "text/plain",
	".xml":  "application/xml",
	".yaml": "application/yaml",
	".yml":  "application/yaml",
}

// mimeType returns a file's type by its name, otherwise by its beginning, and whether it is
// text.
func mimeType(name string, data []byte) (media string, text bool) {
	media, text = textTypes[strings.ToLower(path.Ext(name))]
	if !text {
		media, _, _ = strings.Cut(http.DetectContentType(data), ";")
		text = strings.HasPrefix(media, "text/")
	}
	return media, text && utf8.Valid(data)
}
