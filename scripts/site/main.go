// Command site makes the documents a site: one page of HTML for each page of Markdown, with a
// search that asks no other host. The site is self-contained: any web server shows it, and so does
// a browser that opens the files.
//
//	go run ./scripts/site --out .tmp/site
package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"flag"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// sources is the address of files that are not pages.
const sources = "https://github.com/busbar-mcp/busbar/blob/main/"

//go:embed page.html style.css search.js
var assets embed.FS

var layout = template.Must(template.ParseFS(assets, "page.html"))

func main() {
	root := flag.String("root", ".", "`directory` of the repository")
	out := flag.String("out", ".tmp/site", "`directory` that the site is written to")
	at := flag.String("at", "/", "`path` under which a web server has the site, for the page that it shows instead of a missing one")
	flag.Parse()
	pages, err := build(os.DirFS(*root), *out, *at)
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	index, err := filepath.Abs(filepath.Join(*out, "index.html"))
	if err != nil {
		index = *out
	}
	fmt.Printf("%d pages; open %s\n", pages, index)
}

// page is one document.
type page struct {
	file   string // in the repository
	at     string // in the site
	raw    []byte
	tree   ast.Node
	images []string // in the repository, and at the same place in the site
}

// section is one result of the search: a heading, and the text below it.
type section struct {
	Page    string `json:"page"`
	Heading string `json:"heading"`
	URL     string `json:"url"`
	Text    string `json:"text"`
}

// missing is the text of 404.html, which most web servers show if there is no page.
const missing = "<h1>No such page</h1>\n<p>The search above knows every page; <a href=\"%[1]sdocs/index.html\">Documents</a> lists them.</p>"

// build writes the site of a repository, and returns how many pages it has. A web server
// has it under a path, which no other page depends on.
func build(repository fs.FS, out, at string) (int, error) {
	files, err := documents(repository)
	if err != nil {
		return 0, err
	}
	markdown := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	pages := map[string]*page{}
	for _, file := range files {
		p := &page{file: file, at: address(file)}
		if p.raw, err = fs.ReadFile(repository, file); err != nil {
			return 0, err
		}
		p.tree = markdown.Parser().Parse(text.NewReader(p.raw), parser.WithContext(parser.NewContext(parser.WithIDs(&anchors{}))))
		pages[file] = p
	}
	var index []section
	for _, file := range files {
		p := pages[file]
		if err := p.relink(pages, repository); err != nil {
			return 0, err
		}
		found := p.sections()
		if len(found) == 0 {
			return 0, fmt.Errorf("%s has no heading", file)
		}
		index = append(index, found...)
		for _, image := range p.images {
			content, err := fs.ReadFile(repository, image)
			if err == nil {
				err = write(filepath.Join(out, filepath.FromSlash(image)), content)
			}
			if err != nil {
				return 0, fmt.Errorf("%s: %w", file, err)
			}
		}
		var body bytes.Buffer
		if err := markdown.Renderer().Render(&body, p.raw, p.tree); err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		err := shown(filepath.Join(out, filepath.FromSlash(p.at)), found[0].Heading, strings.Repeat("../", strings.Count(p.at, "/")), sources+file, body.String())
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
	}
	at = strings.TrimSuffix(at, "/") + "/"
	if err := shown(filepath.Join(out, "404.html"), "No such page", at, "", fmt.Sprintf(missing, template.HTMLEscapeString(at))); err != nil {
		return 0, err
	}
	found, err := json.Marshal(index)
	if err != nil {
		return 0, err
	}
	// A script and not a file of JSON: a browser that shows files of a disk fetches none.
	err = write(filepath.Join(out, "index.js"), append(append([]byte("const sections = "), found...), ";\n"...))
	for _, name := range []string{"style.css", "search.js"} {
		var asset []byte
		if err == nil {
			asset, err = assets.ReadFile(name)
		}
		if err == nil {
			err = write(filepath.Join(out, name), asset)
		}
	}
	return len(files), err
}

// shown writes a page. Root leads from it to the site, and body is of our own documents.
func shown(file, title, root, source, body string) error {
	var whole bytes.Buffer
	err := layout.Execute(&whole, map[string]any{"Title": title, "Root": root, "Source": source, "Body": template.HTML(body)})
	if err != nil {
		return err
	}
	return write(file, whole.Bytes())
}

// documents returns the pages of the site: docs, and the Markdown files above it. Templates are
// left out: they are for copying, and their links lead nowhere.
func documents(repository fs.FS) (files []string, err error) {
	files, err = fs.Glob(repository, "*.md")
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(repository, "docs", func(file string, _ fs.DirEntry, err error) error {
		if err == nil && path.Ext(file) == ".md" && path.Base(file) != "template.md" {
			files = append(files, file)
		}
		return err
	})
	return files, err
}

// address is where a document is in the site.
func address(file string) string {
	if file == "README.md" {
		return "index.html"
	}
	if path.Base(file) == "README.md" {
		return path.Join(path.Dir(file), "index.html")
	}
	return strings.TrimSuffix(file, ".md") + ".html"
}

func write(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

// relink makes links lead to pages of the site, or to the sources of files that are not pages. A
// link to a missing file is an error.
func (p *page) relink(pages map[string]*page, repository fs.FS) error {
	return ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		var destination *[]byte
		switch n := n.(type) {
		case *ast.Link:
			destination = &n.Destination
		case *ast.Image:
			destination = &n.Destination
		}
		if !entering || destination == nil {
			return ast.WalkContinue, nil
		}
		link := string(*destination)
		if strings.Contains(link, "://") || strings.HasPrefix(link, "#") || strings.HasPrefix(link, "mailto:") {
			return ast.WalkContinue, nil
		}
		file, anchor, _ := strings.Cut(link, "#")
		file = path.Join(path.Dir(p.file), file)
		if anchor != "" {
			anchor = "#" + anchor
		}
		if to := pages[file]; to != nil {
			*destination = []byte(relative(p.at, to.at) + anchor)
			return ast.WalkContinue, nil
		}
		if _, err := fs.Stat(repository, file); err != nil {
			return ast.WalkStop, fmt.Errorf("%s links to %s: %w", p.file, link, err)
		}
		if n.Kind() == ast.KindImage {
			p.images = append(p.images, file)
			*destination = []byte(relative(p.at, file))
			return ast.WalkContinue, nil
		}
		*destination = []byte(sources + file + anchor)
		return ast.WalkContinue, nil
	})
}

// relative is the way from one page of the site to another.
func relative(from, to string) string {
	return strings.Repeat("../", strings.Count(from, "/")) + to
}

// sections are the headings of a page, with the text below each.
func (p *page) sections() (all []section) {
	title := ""
	for n := p.tree.FirstChild(); n != nil; n = n.NextSibling() {
		if heading, is := n.(*ast.Heading); is {
			s := section{Heading: p.plain(heading), URL: p.at}
			if title == "" {
				title = s.Heading
			} else if id, has := heading.AttributeString("id"); has {
				s.URL += "#" + string(id.([]byte))
			}
			s.Page = title
			all = append(all, s)
			continue
		}
		if len(all) > 0 {
			last := &all[len(all)-1]
			last.Text = strings.TrimSpace(last.Text + " " + p.plain(n))
		}
	}
	return all
}

// plain is the text of a node, without marks.
func (p *page) plain(n ast.Node) string {
	var words strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				words.Write(n.Value(p.raw))
			}
			if n.SoftLineBreak() {
				words.WriteByte(' ')
			}
		case *ast.String:
			if entering {
				words.Write(n.Value)
			}
		default:
			if n.Type() != ast.TypeBlock {
				break
			}
			if entering && (n.Kind() == ast.KindFencedCodeBlock || n.Kind() == ast.KindCodeBlock) {
				words.Write(n.Lines().Value(p.raw))
			}
			words.WriteByte(' ')
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(words.String()), " ")
}

// anchors names headings as GitHub does, for which links are written.
type anchors struct{ seen map[string]int }

// Generate implements parser.IDs.
func (a *anchors) Generate(heading []byte, _ ast.NodeKind) []byte {
	var id strings.Builder
	for _, r := range strings.ToLower(string(heading)) {
		switch {
		case r == ' ' || r == '-':
			id.WriteByte('-')
		case r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 127 && r != '…' && r != '·':
			id.WriteRune(r)
		}
	}
	name := id.String()
	if a.seen == nil {
		a.seen = map[string]int{}
	}
	n := a.seen[name]
	if a.seen[name]++; n > 0 {
		name = fmt.Sprintf("%s-%d", name, n)
	}
	return []byte(name)
}

// Put implements parser.IDs.
func (a *anchors) Put(id []byte) {}
