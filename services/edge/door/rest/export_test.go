package rest

// Served are the paths and methods of the door, as in its OpenAPI document.
func Served() map[string][]string {
	served := map[string][]string{}
	for root, r := range collections {
		for m := range r {
			served["/"+root] = append(served["/"+root], m)
		}
	}
	names := map[string]string{"tools": "{name}", "prompts": "{name}", "resources": "{uri}", "approvals": "{id}", "elicitations": "{id}", "docs": "assets/{name}"}
	for root, r := range members {
		path := "/" + root + "/" + names[root]
		for m := range r {
			served[path] = append(served[path], m)
		}
	}
	return served
}
