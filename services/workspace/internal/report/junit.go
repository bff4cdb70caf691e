package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
)

// maxDepth is the largest nesting of elements.
const maxDepth = 64

// JUnit reads a JUnit XML file. The reader does not know entities that a document defines, so none can
// grow. Encodings other than UTF-8 are refused.
func JUnit(data []byte) (*Report, error) {
	if len(data) > maxXML {
		return nil, errors.New("the report is larger than 8 MiB")
	}
	d := xml.NewDecoder(bytes.NewReader(data))
	out := &Report{Format: "junit"}
	var current *Failure
	var failed, skipped, suites bool
	depth := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, errors.New("the report is not JUnit XML: " + clip(Plain(err.Error()), 200))
		}
		switch t := token.(type) {
		case xml.StartElement:
			if depth++; depth > maxDepth {
				return nil, errors.New("the report is nested too deeply")
			}
			switch t.Name.Local {
			case "testsuites", "testsuite":
				suites = true
			case "testcase":
				failed, skipped = false, false
				current = &Failure{Name: attr(t, "name"), File: attr(t, "file"), Line: number(attr(t, "line"))}
				if class := attr(t, "classname"); class != "" {
					current.Name = class + "." + current.Name
				}
			case "failure", "error", "skipped":
				if current == nil {
					break
				}
				if t.Name.Local == "skipped" {
					skipped = true
					break
				}
				failed = true
				if m := attr(t, "message"); m != "" {
					current.Message = grow(current.Message, m)
				}
			}
		case xml.CharData:
			if failed && current != nil {
				current.Message = grow(current.Message, Plain(strings.TrimSpace(string(t))))
			}
		case xml.EndElement:
			depth--
			switch t.Name.Local {
			case "testcase":
				switch {
				case current == nil:
				case failed:
					out.add(*current)
				case skipped:
					out.Skipped++
				default:
					out.Passed++
				}
				current = nil
			}
		}
	}
	if !suites {
		return nil, errors.New("the report is not JUnit XML: it has no testsuite")
	}
	return out, nil
}

func attr(t xml.StartElement, name string) string {
	for _, a := range t.Attr {
		if a.Name.Local == name {
			return Plain(clip(a.Value, maxMessage))
		}
	}
	return ""
}

// junitOutput reads JUnit XML that a runner writes to its output.
type junitOutput struct {
	xml []byte
	// top is the open element; done is set after its end.
	top  string
	done bool
}

func (j *junitOutput) line(text string) {
	start := strings.TrimSpace(text)
	switch {
	case j.done, len(j.xml) == 0 && !strings.HasPrefix(start, "<?xml") && !strings.HasPrefix(start, "<testsuite"):
		return
	case len(j.xml)+len(text) >= maxXML:
		j.xml, j.done = nil, true
		return
	}
	j.xml = append(append(j.xml, text...), '\n')
	if j.top == "" {
		for _, top := range []string{"testsuites", "testsuite"} {
			if strings.Contains(start, "<"+top) {
				j.top = top
				break
			}
		}
	}
	j.done = j.top != "" && strings.HasSuffix(start, "</"+j.top+">")
}

func (j *junitOutput) report() *Report {
	if j.top == "" {
		return nil
	}
	found, err := JUnit(j.xml)
	if err != nil {
		return nil
	}
	return found
}
