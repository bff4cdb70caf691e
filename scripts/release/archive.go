package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// entry is a file of an archive: what a file has in it, or text.
type entry struct {
	name, from, text string
	mode             int64
}

func (e entry) bytes() ([]byte, error) {
	if e.from == "" {
		return []byte(e.text), nil
	}
	return os.ReadFile(e.from)
}

// tarred is a .tar.gz of entries, with the directories that they are in. Owner and time
// are always the same.
func (r *release) tarred(entries []entry) ([]byte, error) {
	var out bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(zipped)
	made := map[string]bool{}
	header := func(name string, kind byte, mode int64, size int) error {
		return archive.WriteHeader(&tar.Header{Typeflag: kind, Name: name, Mode: mode, Size: int64(size), ModTime: r.time, Format: tar.FormatUSTAR})
	}
	for _, e := range entries {
		var above []string
		for dir := path.Dir(e.name); dir != "." && dir != "/" && !made[dir]; dir = path.Dir(dir) {
			above, made[dir] = append(above, dir), true
		}
		for _, dir := range slices.Backward(above) {
			if err := header(dir+"/", tar.TypeDir, 0o755, 0); err != nil {
				return nil, err
			}
		}
		b, err := e.bytes()
		if err != nil {
			return nil, err
		}
		if err := header(e.name, tar.TypeReg, e.mode, len(b)); err != nil {
			return nil, err
		}
		if _, err := archive.Write(b); err != nil {
			return nil, err
		}
	}
	err = errors.Join(archive.Close(), zipped.Close())
	return out.Bytes(), err
}

// chart is the Helm chart as an archive, which helm installs by its URL.
func (r *release) chart() error {
	var entries []entry
	err := fs.WalkDir(os.DirFS("deploy/helm"), program, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			entries = append(entries, entry{name: name, from: path.Join("deploy/helm", name), mode: 0o644})
		}
		return err
	})
	if err != nil {
		return err
	}
	b, err := r.tarred(entries)
	if err != nil {
		return err
	}
	return r.write(program+"-chart_"+r.version+".tgz", b)
}

// zipped is a .zip of entries.
func (r *release) zipped(entries []entry) ([]byte, error) {
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	archive.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	for _, e := range entries {
		b, err := e.bytes()
		if err != nil {
			return nil, err
		}
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: r.time}
		h.SetMode(os.FileMode(e.mode))
		w, err := archive.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(b); err != nil {
			return nil, err
		}
	}
	err := archive.Close()
	return out.Bytes(), err
}

// debVersion is a version as Debian orders it: a pre-release before its release.
func debVersion(version string) string { return strings.Replace(version, "-", "~", 1) }

// deb is a Debian package (deb(5)): an ar archive of three files. The program needs
// nothing of the system, so there is nothing to depend on and nothing to run.
func (r *release) deb(arch, binary string, texts []entry) ([]byte, error) {
	entries := append([]entry{{name: "usr/bin/" + program, from: binary, mode: 0o755}}, r.completions...)
	for _, t := range texts {
		if t.name == "LICENSE" {
			t.name = "copyright"
		}
		t.name = "usr/share/doc/" + program + "/" + t.name
		entries = append(entries, t)
	}
	data, err := r.tarred(entries)
	if err != nil {
		return nil, err
	}
	var sums strings.Builder
	size := 0
	for _, e := range entries {
		b, err := e.bytes()
		if err != nil {
			return nil, err
		}
		size += len(b)
		fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(b), e.name)
	}
	control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: The Busbar contributors\nInstalled-Size: %d\nSection: net\nPriority: optional\nHomepage: %s\nDescription: %s\n",
		program, debVersion(r.version), arch, (size+1023)/1024, home, about)
	facts, err := r.tarred([]entry{{name: "control", text: control, mode: 0o644}, {name: "md5sums", text: sums.String(), mode: 0o644}})
	if err != nil {
		return nil, err
	}
	out := bytes.NewBufferString("!<arch>\n")
	for _, m := range []struct {
		name string
		b    []byte
	}{{"debian-binary", []byte("2.0\n")}, {"control.tar.gz", facts}, {"data.tar.gz", data}} {
		fmt.Fprintf(out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", m.name, r.time.Unix(), 0, 0, "100644", len(m.b))
		out.Write(m.b)
		if len(m.b)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes(), nil
}
