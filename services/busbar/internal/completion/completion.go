// Package completion completes a command line in a shell: the shell's script hands over
// the words, and gets what the last of them may become.
package completion

import (
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Command is the hidden command that a shell's script calls with the words of the line.
const Command = "__complete"

// Script is what makes a shell complete a program; empty for a shell that is not known.
func Script(shell, program string) string {
	return strings.ReplaceAll(scripts[shell], "PROGRAM", program)
}

// Names of tools and flags are all that is printed, so that nothing is left for the
// shell to expand.
var scripts = map[string]string{
	"bash": `_PROGRAM() {
  local IFS=$'\n'
  COMPREPLY=($(PROGRAM ` + Command + ` "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _PROGRAM PROGRAM
`,
	"zsh": `#compdef PROGRAM
_PROGRAM() {
  local -a found
  found=(${(f)"$(PROGRAM ` + Command + ` "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( ${#found} )); then compadd -a found; else _files; fi
}
compdef _PROGRAM PROGRAM
`,
	"fish": `complete -c PROGRAM -a '(PROGRAM ` + Command + ` (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
`,
}

// plain are names that mean nothing to a shell.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,256}$`)

// Suggest is what the last of words may become: a command, a flag, a value of a flag, or
// a name that names knows for the first argument of a command. None is for the shell to
// complete a file.
func Suggest(app *kong.Node, words []string, names func(command string) []string) (found []string) {
	if len(words) == 0 {
		words = []string{""}
	}
	typed := words[len(words)-1]
	node, arguments := app, 0
	var open *kong.Flag // waits for its value
	for _, word := range words[:len(words)-1] {
		if open != nil {
			open = nil
			continue
		}
		if name, is := strings.CutPrefix(word, "-"); is && word != "-" {
			if flag := flagOf(node, strings.TrimPrefix(name, "-")); flag != nil && !flag.IsBool() && !strings.Contains(word, "=") {
				open = flag
			}
			continue
		}
		if child := childOf(node, word); child != nil && arguments == 0 {
			node = child
			continue
		}
		arguments++
	}
	var all []string
	switch {
	case open != nil:
		all = open.EnumSlice()
	case strings.HasPrefix(typed, "-"):
		for at := node; at != nil; at = at.Parent {
			for _, flag := range at.Flags {
				if !flag.Hidden {
					all = append(all, "--"+flag.Name)
				}
			}
		}
	case len(node.Children) > 0:
		for _, child := range node.Children {
			if !child.Hidden {
				all = append(all, child.Name)
			}
		}
	case arguments < len(node.Positional) && node.Positional[arguments].Enum != "":
		all = node.Positional[arguments].EnumSlice()
	case arguments == 0 && names != nil:
		all = names(node.Name)
	}
	for _, name := range all {
		if strings.HasPrefix(name, typed) && plain.MatchString(name) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func childOf(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name || slices.Contains(child.Aliases, name) {
			return child
		}
	}
	return nil
}

// flagOf finds a flag of a command or of those above it, by its long or short name.
func flagOf(node *kong.Node, name string) *kong.Flag {
	name, _, _ = strings.Cut(name, "=")
	for at := node; at != nil; at = at.Parent {
		for _, flag := range at.Flags {
			if flag.Name == name || flag.Short != 0 && string(flag.Short) == name {
				return flag
			}
		}
	}
	return nil
}
