// Licences lists the licence of every module that is linked into a program, and
// fails for one that is not known to allow that. It reads the texts in the module
// cache, so it needs no network.
//
//	go run scripts/licences/main.go ./services/busbar/cmd/busbar …
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// known are licences that require only their text and notices, each with a text that occurs in it
// alone, regardless of line breaks and capitals. The more specific come first.
var known = []struct{ name, says string }{
	{"Apache-2.0", "Apache License Version 2.0, January 2004"},
	{"MPL-2.0", "Mozilla Public License Version 2.0"}, // of files that nobody here changes
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"BSD-3-Clause", "Neither the name of"},
	{"BSD-3-Clause", "The name of any author may not be used to endorse or promote products"}, // of libcap, which is under the GPL for those who would rather
	{"BSD-2-Clause", "Redistributions in binary form must reproduce the above copyright notice"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose"},
	{"ISC", "Permission to use, copy, modify, and distribute this software for any purpose"},
	{"CC0-1.0", "CC0 1.0 Universal"},
	{"Unlicense", "This is free and unencumbered software released into the public domain"},
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

func run(programs []string) error {
	if len(programs) == 0 {
		return fmt.Errorf("name the packages of the programs")
	}
	const form = `{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}`
	out, err := exec.Command("go", append([]string{"list", "-deps", "-f", form}, programs...)...).Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	modules := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(modules)
	bad := 0
	for _, m := range slices.Compact(modules) {
		f := strings.Fields(m)
		if len(f) != 3 {
			continue
		}
		name := licence(f[2])
		fmt.Printf("%-16s %s %s\n", name, f[0], f[1])
		if name == "unknown" {
			bad++
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d modules without a licence that is known here: read it, and add it if it may be", bad)
	}
	return nil
}

// licence names the licence of the module in a directory.
func licence(dir string) string {
	for _, pattern := range []string{"LICENSE*", "LICENCE*", "License*", "license*", "COPYING*", "UNLICENSE*"} {
		files, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				continue
			}
			words := strings.ToLower(strings.Join(strings.Fields(string(text)), " "))
			for _, k := range known {
				if strings.Contains(words, strings.ToLower(k.says)) {
					return k.name
				}
			}
		}
	}
	return "unknown"
}
