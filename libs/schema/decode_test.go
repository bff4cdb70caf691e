package schema

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

var decodeSeeds = []string{
	`null`, `true`, `[]`, `{}`, ` {"a":[1,2.50,-0,1e5,"x\u0041\ud83d\ude00",null,false,{"b":{}}]} `, `[1,]`, `{"a":1,"a":2}`, `1 2`, ``, `{"a"`,
	"\"\xff\"", `[[[[]]]]`, `9007199254740993`,
}

func sameDecoding(t *testing.T, in []byte) {
	t.Helper()
	got, err := decode(in)
	if valid := jsontext.Value(in).IsValid(); (err == nil) != valid {
		t.Fatalf("%.100q: error %v, but valid is %v", in, err, valid)
	}
	if err != nil {
		return
	}
	want, err := jsonschema.UnmarshalJSON(bytes.NewReader(in))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%.100q: got %#v, want %#v, %v", in, got, want, err)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	for _, in := range decodeSeeds {
		sameDecoding(t, []byte(in))
	}
	// Neither depth nor what came before may disturb the next value.
	sameDecoding(t, []byte(strings.Repeat("[", 5000)+strings.Repeat("]", 5000)))
	if _, err := decode([]byte(strings.Repeat("[", 1_000_000))); err == nil {
		t.Error("a million levels are accepted")
	}
	sameDecoding(t, []byte(`{"a":"`+strings.Repeat("x", 1<<20)+`"}`))
	sameDecoding(t, []byte(`{"after":1}`))
}

// FuzzDecode compares the reader with the library's own.
func FuzzDecode(f *testing.F) {
	for _, in := range decodeSeeds {
		f.Add([]byte(in))
	}
	f.Fuzz(sameDecoding)
}
