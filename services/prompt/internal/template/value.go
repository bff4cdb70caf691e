package template

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// parse reads a value of the argument's type. Its error continues a sentence.
func (a *Argument) parse(s string) (value, error) {
	switch a.Type {
	case Integer:
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < -maxInteger || n > maxInteger {
			return value{}, errors.New("must be an integer")
		}
		return value{text: strconv.FormatInt(n, 10), set: true}, nil
	case Number:
		// JSON's number format: no hexadecimals, no infinity.
		v := jsontext.Value(s)
		if len(s) > 40 || v.Kind() != '0' || !v.IsValid() {
			return value{}, errors.New("must be a number")
		}
		return value{text: strings.TrimSpace(s), set: true}, nil
	case Boolean:
		if s != "true" && s != "false" {
			return value{}, errors.New("must be true or false")
		}
		return value{text: s, set: s == "true"}, nil
	case Enum:
		for _, v := range a.Values {
			if s == v {
				return value{text: s, set: true}, nil
			}
		}
		return value{}, fmt.Errorf("must be one of %s", strings.Join(a.Values, ", "))
	case List:
		items, err := split(s)
		return value{text: strings.Join(items, ", "), items: items, set: len(items) > 0}, err
	}
	return value{text: s, set: s != ""}, nil
}

const maxInteger = 1<<53 - 1

// maxItems is the largest length of a list, which also bounds a loop.
const maxItems = 1000

func split(s string) ([]string, error) {
	by := "\n"
	if !strings.Contains(strings.TrimSpace(s), "\n") {
		by = ","
	}
	if strings.Count(s, by) > 10*maxItems {
		return nil, fmt.Errorf("must have at most %d items", maxItems)
	}
	var items []string
	for _, item := range strings.Split(s, by) {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	if len(items) > maxItems {
		return nil, fmt.Errorf("must have at most %d items", maxItems)
	}
	return items, nil
}

// value is the value of an argument in a template.
type value struct {
	text  string
	items []string // of a list
	// set is true if a condition on the argument holds.
	set bool
}
