package authserver

import (
	"net/http"

	"github.com/go-json-experiment/json"
)

// Paths of the endpoints.
const (
	authorizePath = "/authorize"
	tokenPath     = "/token"
	registerPath  = "/register"
	keysPath      = "/jwks"
)

// offline is a scope that concerns only client and server: the client wants a refresh token. It has no
// meaning for the edge, so no access token contains it.
const offline = "offline_access"

// metadata returns the document of RFC 8414. It is also served at OpenID Connect's path, for clients that
// look only there; there are no ID tokens.
func (s *Server) metadata(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{
		"issuer":                                         s.issuer,
		"authorization_endpoint":                         s.issuer + authorizePath,
		"token_endpoint":                                 s.issuer + tokenPath,
		"registration_endpoint":                          s.issuer + registerPath,
		"jwks_uri":                                       s.issuer + keysPath,
		"scopes_supported":                               append(s.cfg.Scopes(), offline),
		"response_types_supported":                       []string{"code"},
		"response_modes_supported":                       []string{"query"},
		"grant_types_supported":                          []string{"authorization_code", "refresh_token", ownGrant},
		"token_endpoint_auth_methods_supported":          []string{"none", secretBasic, secretPost},
		"code_challenge_methods_supported":               []string{"S256"},
		"authorization_response_iss_parameter_supported": true,
		"client_id_metadata_document_supported":          true,
		"protected_resources":                            []string{s.cfg.Resource},
		"subject_types_supported":                        []string{"public"},
		"id_token_signing_alg_values_supported":          []string{"ES256"},
	})
}

func (s *Server) keys(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(s.key.public)
}

// failure is an error of OAuth. Its text is for the developer of the client.
type failure struct {
	Code string `json:"error"`
	Text string `json:"error_description,omitzero"`
}

func fail(code, text string) *failure { return &failure{code, text} }

// write answers with the failure.
func (f *failure) write(w http.ResponseWriter) {
	status := http.StatusBadRequest
	if f.Code == "invalid_client" {
		status = http.StatusUnauthorized
		w.Header().Set("WWW-Authenticate", `Basic realm="busbar dev"`)
	}
	answer(w, status, f)
}

func answer(w http.ResponseWriter, status int, v any) {
	raw, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw)
}
