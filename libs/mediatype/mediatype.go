// Package mediatype names the media type of a file by its name, the same on every machine for
// sources of common languages. Start at Of.
package mediatype

import (
	"mime"
	"path"
)

// sources are types of source code that systems name differently or not at all, by extension.
var sources = map[string]string{
	".c": "text/x-c", ".go": "text/x-go", ".java": "text/x-java", ".kt": "text/x-kotlin", ".md": "text/markdown; charset=utf-8",
	".py": "text/x-python", ".rb": "text/x-ruby", ".rs": "text/x-rust", ".swift": "text/x-swift",
}

// Of returns the media type of a file by the extension of its name; empty if the extension is not known.
func Of(name string) string {
	if t := sources[path.Ext(name)]; t != "" {
		return t
	}
	return mime.TypeByExtension(path.Ext(name))
}
