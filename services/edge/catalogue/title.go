package catalogue

import "github.com/go-json-experiment/json"

// title is the title in a tool's JSON; empty for none.
func title(tool []byte) string {
	var about struct {
		Title       string `json:"title,omitzero"`
		Annotations struct {
			Title string `json:"title,omitzero"`
		} `json:"annotations,omitzero"`
	}
	if json.Unmarshal(tool, &about) != nil || about.Title == "" {
		return about.Annotations.Title
	}
	return about.Title
}
