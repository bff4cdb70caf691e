package catalogue

import (
	"crypto/sha256"
	"encoding/hex"

	"google.golang.org/protobuf/proto"
)

// entryDigest stands for an entry as its service announced it; package definition does so for a
// tool.
func entryDigest(service string, entry proto.Message) string {
	said, err := proto.MarshalOptions{Deterministic: true}.Marshal(entry)
	if err != nil { // it was read from the bus
		return ""
	}
	h := sha256.New()
	_, _ = h.Write([]byte(service + "\x00" + string(entry.ProtoReflect().Descriptor().FullName()) + "\x00"))
	_, _ = h.Write(said)
	return hex.EncodeToString(h.Sum(nil))
}

// listed are the lists behind each change, in the order of the digest.
var listed = []struct {
	change Change
	kinds  []Kind
}{
	{ToolsChanged, []Kind{Tools}},
	{PromptsChanged, []Kind{Prompts}},
	{ResourcesChanged, []Kind{Resources, Templates, Skills}},
}

// digestPart is the length of the part for one change.
const digestPart = 8

// Digest stands for the contents of the lists: the same on every edge, hexadecimal.
func (s *Snapshot) Digest() string { return s.digest }

func digest(lists *[kinds]list) string {
	all := make([]byte, 0, len(listed)*digestPart)
	for _, l := range listed {
		h := sha256.New()
		for _, k := range l.kinds {
			for _, it := range lists[k].items {
				_, _ = h.Write(it.json)
				_, _ = h.Write([]byte{'\n'})
			}
			_, _ = h.Write([]byte{0})
		}
		all = hex.AppendEncode(all, h.Sum(nil)[:digestPart/2])
	}
	return string(all)
}

// since returns which lists differ from the lists of a digest; all of them if the digest is not
// ours.
func (s *Snapshot) since(digest string) Change {
	var c Change
	for i, l := range listed {
		if len(digest) != len(s.digest) || digest[i*digestPart:][:digestPart] != s.digest[i*digestPart:][:digestPart] {
			c |= l.change
		}
	}
	return c
}
