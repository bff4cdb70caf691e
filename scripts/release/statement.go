package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"time"
)

// bill is the bill of materials of a program, in CycloneDX 1.6: what Go itself wrote
// into it of the modules that are linked, with their versions and hashes.
func (r *release) bill(binary string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	type component struct {
		Type       string              `json:"type"`
		Ref        string              `json:"bom-ref"`
		Name       string              `json:"name"`
		Version    string              `json:"version"`
		URL        string              `json:"purl"`
		Properties []map[string]string `json:"properties,omitempty"`
	}
	golang := func(kind, path, version string) component {
		url := "pkg:golang/" + path + "@" + version
		return component{Type: kind, Ref: url, Name: path, Version: version, URL: url}
	}
	of := golang("application", info.Main.Path, r.version)
	all := []component{golang("library", "std", strings.TrimPrefix(info.GoVersion, "go"))}
	refs := []string{all[0].Ref}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		version := m.Version
		if version == "" || version == "(devel)" || strings.HasPrefix(m.Path, ".") {
			continue // of this repository: part of the program
		}
		c := golang("library", m.Path, version)
		if m.Sum != "" {
			c.Properties = []map[string]string{{"name": "go:sum", "value": m.Sum}}
		}
		all, refs = append(all, c), append(refs, c.Ref)
	}
	if len(all) < 2 {
		return nil, fmt.Errorf("the program does not say which modules it is of")
	}
	return json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata":     map[string]any{"timestamp": r.time.Format(time.RFC3339), "component": of},
		"components":   all,
		"dependencies": []map[string]any{{"ref": of.Ref, "dependsOn": refs}},
	}, "", "  ")
}

// provenance says of every file of the release what it was built from, and how: an
// in-toto statement with SLSA's predicate. Nobody has signed it: it is worth as much as
// the place it is read from.
func (r *release) provenance() error {
	type digest map[string]string
	subjects := []map[string]any{}
	for _, name := range r.names() {
		subjects = append(subjects, map[string]any{"name": name, "digest": digest{"sha256": r.files[name]}})
	}
	return r.writeJSON("provenance.json", map[string]any{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       subjects,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":            home + "/blob/main/RELEASING.md",
				"externalParameters":   map[string]any{"source": source, "version": r.version},
				"internalParameters":   map[string]any{"flags": "CGO_ENABLED=0 -trimpath -buildvcs=false -ldflags '" + r.linked + "'"},
				"resolvedDependencies": []map[string]any{{"uri": "git+" + home, "digest": digest{"gitCommit": r.commit}}, {"uri": "https://go.dev/dl/", "annotations": map[string]string{"version": runtime.Version()}}},
			},
			"runDetails": map[string]any{"builder": map[string]any{"id": home + "/blob/main/scripts/release"}},
		},
	})
}

// formula writes the formula for Homebrew.
func (r *release) formula() error {
	var b strings.Builder
	fmt.Fprintf(&b, "class Busbar < Formula\n  desc %q\n  homepage %q\n  version %q\n  license \"Apache-2.0\"\n", about, home, r.version)
	found := false
	for _, system := range []struct{ word, goos string }{{"macos", "darwin"}, {"linux", "linux"}} {
		var block strings.Builder
		for _, cpu := range []struct{ word, arch string }{{"arm", "arm64"}, {"intel", "amd64"}} {
			name := fmt.Sprintf("%s_%s_%s_%s.tar.gz", program, r.version, system.goos, cpu.arch)
			if sum := r.files[name]; sum != "" {
				fmt.Fprintf(&block, "    on_%s do\n      url %q\n      sha256 %q\n    end\n", cpu.word, home+"/releases/download/v"+r.version+"/"+name, sum)
			}
		}
		if block.Len() > 0 {
			found = true
			fmt.Fprintf(&b, "\n  on_%s do\n%s  end\n", system.word, block.String())
		}
	}
	if !found {
		return nil
	}
	b.WriteString("\n  def install\n    bin.install \"busbar\"\n    generate_completions_from_executable(bin/\"busbar\", \"completion\")\n  end\n\n  test do\n    assert_match version.to_s, shell_output(\"#{bin}/busbar --version\")\n  end\nend\n")
	return r.write("busbar.rb", []byte(b.String()))
}
