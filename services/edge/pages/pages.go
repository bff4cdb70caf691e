// Package pages serves what people see in a browser: Swagger UI at /docs, GraphiQL at
// /graphql, and on both a panel that calls tools by forms and answers waiting calls.
// Everything comes from this edge; scripts/pages updates the vendored parts. Start with
// Show and Serve.
package pages

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io"
	"net/http"
	"path"
	"strings"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/door"
)

// Assets is the path below which the files that pages load are served.
const Assets = "/docs/assets/"

//go:embed own vendored/*.gz
var files embed.FS

// types are the content types, by the ending of the name.
var types = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}

// Show answers with a page, docs or graphql. The page may load only this edge's scripts
// and styles, and connect only to this edge. A style that a script creates has the nonce
// of the answer. Nothing is evaluated, framed, or sent anywhere else.
func Show(w http.ResponseWriter, name string) {
	page, err := files.ReadFile("own/" + name + ".html")
	if err != nil {
		panic(err) // it is embedded
	}
	nonce := rand.Text()
	policy := "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-" + nonce + "'; img-src 'self' data:; font-src 'none'; connect-src 'self'; " +
		"form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
	w.Header().Set("Cache-Control", "no-store") // because of the nonce
	door.Page(w, policy, bytes.ReplaceAll(page, []byte("{{nonce}}"), []byte(nonce)))
}

// Serve answers with a file that a page loads, below Assets. Vendored files are stored
// compressed, and sent so to clients that accept it.
func Serve(w http.ResponseWriter, r *http.Request, name string) error {
	kind := types[path.Ext(name)]
	if kind == "" || strings.Contains(name, "/") {
		return nothing()
	}
	body, err := files.ReadFile("own/" + name)
	packed := err != nil
	if packed {
		if body, err = files.ReadFile("vendored/" + name + ".gz"); err != nil {
			return nothing()
		}
	}
	h := w.Header()
	sum := sha256.Sum256(body)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	h.Set("ETag", tag)
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	if packed {
		h.Add("Vary", "Accept-Encoding")
	}
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	if packed && takesGzip(r.Header) {
		h.Set("Content-Encoding", "gzip")
	} else if packed {
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err == nil {
			body, err = io.ReadAll(z)
		}
		if err != nil {
			return fault.From(err)
		}
	}
	door.Answer(w, http.StatusOK, kind, body)
	return nil
}

// takesGzip reports whether a client accepts gzip (RFC 9110, 12.5.3).
func takesGzip(h http.Header) bool {
	takes := false
	for part := range strings.SplitSeq(strings.ToLower(strings.Join(h["Accept-Encoding"], ",")), ",") {
		coding, weight, _ := strings.Cut(strings.ReplaceAll(part, " ", ""), ";q=")
		switch some := strings.Trim(weight, "0.") != "" || weight == ""; coding {
		case "gzip", "x-gzip":
			return some
		case "*":
			takes = some
		}
	}
	return takes
}

func nothing() error { return fault.New(fault.MethodNotFound, "nothing is at this path") }
