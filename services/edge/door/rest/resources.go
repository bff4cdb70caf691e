package rest

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/forms"
)

// listResources lists resources, or with ?uri= reads one: a URI is awkward in a path.
func (h *Handler) listResources(w http.ResponseWriter, r *http.Request, who api.Caller, _ string) error {
	if uri := r.URL.Query().Get("uri"); uri != "" {
		return h.readResource(w, r, who, uri)
	}
	resources, next, err := page(r, who, h.cfg.API.Resources)
	if err != nil {
		return err
	}
	return send(w, r, http.StatusOK, struct {
		Resources []jsontext.Value `json:"resources"`
		Next      string           `json:"next_cursor,omitzero"`
	}{resources, next})
}

func (h *Handler) readResource(w http.ResponseWriter, r *http.Request, who api.Caller, uri string) error {
	about, contents, err := h.cfg.API.ReadResource(r.Context(), who, uri)
	if err != nil {
		return err
	}
	return send(w, r, http.StatusOK, struct {
		URI         string         `json:"uri"`
		Name        string         `json:"name,omitzero"`
		Title       string         `json:"title,omitzero"`
		Description string         `json:"description,omitzero"`
		MIMEType    string         `json:"mimeType,omitzero"`
		Contents    jsontext.Value `json:"contents"`
	}{uri, about.Name, about.Title, about.Description, about.MIMEType, contents})
}

// input reads the resource in a request's body, and the revision that the request
// requires.
func (h *Handler) input(w http.ResponseWriter, r *http.Request, who api.Caller) (in *api.ResourceInput, revision int64, err error) {
	if match := r.Header.Get("If-Match"); match != "" && match != "*" {
		if revision, err = strconv.ParseInt(strings.Trim(match, `"`), 10, 64); err != nil || revision < 1 {
			return nil, 0, fault.New(fault.InvalidRequest, "If-Match is the revision of the resource, a number")
		}
	}
	body, err := h.body(w, r)
	if err != nil {
		return nil, 0, who.OfBody(forms.Resource, err)
	}
	in, err = api.ReadResourceInput(body)
	return in, revision, err
}

// stored answers with the metadata of a resource that was written.
func stored(w http.ResponseWriter, r *http.Request, status int, entry jsontext.Value) error {
	var about struct {
		URI      string `json:"uri"`
		Revision int64  `json:"revision"`
	}
	if err := json.Unmarshal(entry, &about); err == nil {
		w.Header().Set("ETag", `"`+strconv.FormatInt(about.Revision, 10)+`"`)
		if status == http.StatusCreated {
			w.Header().Set("Location", "/resources/"+url.PathEscape(about.URI))
		}
	}
	return send(w, r, status, entry)
}

func (h *Handler) createResource(w http.ResponseWriter, r *http.Request, who api.Caller, _ string) error {
	in, _, err := h.input(w, r, who)
	if err != nil {
		return err
	}
	entry, err := h.cfg.API.CreateResource(r.Context(), who, in)
	if err != nil {
		return err
	}
	return stored(w, r, http.StatusCreated, entry)
}

// putResource changes a resource, or creates it. It creates with the same key, so that a
// repeated request finds the key and gets the same answer.
func (h *Handler) putResource(w http.ResponseWriter, r *http.Request, who api.Caller, uri string) error {
	in, revision, err := h.input(w, r, who)
	if err != nil {
		return err
	}
	if in.URI != nil && *in.URI != uri {
		return fault.New(fault.InvalidRequest, "the body names another uri than the path")
	}
	entry, err := h.cfg.API.UpdateResource(r.Context(), who, uri, revision, in)
	if err == nil {
		return stored(w, r, http.StatusOK, entry)
	}
	missing, made := fault.Is(err, fault.UnknownResource), fault.Is(err, fault.Conflict) && who.IdempotencyKey != ""
	if revision > 0 || !missing && !made {
		return err
	}
	in.URI = &uri
	entry, failed := h.cfg.API.CreateResource(r.Context(), who, in)
	switch {
	case failed == nil:
		return stored(w, r, http.StatusCreated, entry)
	case made:
		return err // the key belongs to another call after all
	}
	return failed
}

func (h *Handler) patchResource(w http.ResponseWriter, r *http.Request, who api.Caller, uri string) error {
	in, revision, err := h.input(w, r, who)
	if err != nil {
		return err
	}
	if in.URI != nil && *in.URI != uri {
		return fault.New(fault.InvalidRequest, "a resource keeps its uri")
	}
	entry, err := h.cfg.API.UpdateResource(r.Context(), who, uri, revision, in)
	if err != nil {
		return err
	}
	return stored(w, r, http.StatusOK, entry)
}

func (h *Handler) deleteResource(w http.ResponseWriter, r *http.Request, who api.Caller, uri string) error {
	_, revision, err := h.input(w, r, who)
	if err != nil {
		return err
	}
	if err := h.cfg.API.DeleteResource(r.Context(), who, uri, revision); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
