package authserver

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net"
	"net/http"
)

// style is the only part of a page besides text.
const style = `body{font:1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:3rem auto;padding:0 1rem}fieldset{margin:1rem 0}label{display:block}button{font:inherit;padding:.4rem 1.2rem}small{color:#555}`

var pages = template.Must(template.New("").Parse(`{{define "top"}}<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Busbar: log in</title><style>` + style + `</style></head><body>
{{end}}
{{define "login"}}{{template "top"}}<h1>Log in</h1>
<p><strong>{{.Name}}</strong> wants to use <strong>{{.Resource}}</strong>.</p>
<p>You will be sent to <strong>{{.Whose}}</strong>. The client chose its name itself; only the address is certain.</p>
<form method="post" action="{{.Action}}"><input type="hidden" name="login" value="{{.Login}}">
<fieldset><legend>You are</legend>{{range $i, $u := .Users}}
<label><input type="radio" name="user" value="{{$u.Name}}" required{{if eq $i 0}} checked{{end}}> {{$u.Name}}{{with $u.Note}} <small>{{.}}</small>{{end}}</label>{{else}}
<p>The policy file has no principals, so nobody can log in.</p>{{end}}
</fieldset>{{with .Scopes}}
<fieldset><legend>The client may</legend>{{range .}}
<label><input type="checkbox" name="scope" value="{{.}}" checked> {{.}}</label>{{end}}
</fieldset>{{end}}
<button name="answer" value="allow">Allow</button> <button name="answer" value="deny" formnovalidate>Deny</button>
</form>
<p><small>This is a development server: it needs no password, and only this machine can reach it.</small></p>
</body></html>
{{end}}
{{define "wrong"}}{{template "top"}}<h1>This login does not work</h1>
<p>{{.Text}}</p>
<p><small>{{.Code}}</small></p>
</body></html>
{{end}}`))

// policy allows a page only its own style, and forbids frames. There is no form-action, because browsers
// apply it to redirects, and clients may be anywhere.
var policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; frame-ancestors 'none'"
}()

// show shows a page.
func show(w http.ResponseWriter, status int, page string, with any) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	// Not no-referrer: with it, browsers do not say where a form comes from.
	h.Set("Referrer-Policy", "same-origin")
	w.WriteHeader(status)
	_ = pages.ExecuteTemplate(w, page, with)
}

// wrong shows a person why a login failed.
func (s *Server) wrong(w http.ResponseWriter, status int, f *failure) { show(w, status, "wrong", f) }

// ask shows the login page.
func (s *Server) ask(w http.ResponseWriter, r *http.Request, l *login) {
	cookie, err := r.Cookie(s.cookie())
	if err != nil || len(cookie.Value) != len(rand.Text()) {
		// Neither Secure nor __Host-: both need https, which loopback lacks.
		cookie = &http.Cookie{Name: s.cookie(), Value: rand.Text(), Path: authorizePath, HttpOnly: true, SameSite: http.SameSiteLaxMode}
		http.SetCookie(w, cookie)
	}
	sealed, err := s.key.seal("login "+cookie.Value, l)
	if err != nil {
		s.wrong(w, http.StatusInternalServerError, fail("server_error", "the server failed; its log has the reason"))
		s.cfg.Logger.Error("login page", "error", err)
		return
	}
	name := l.Name
	if name == "" {
		name = "A client without a name"
	}
	show(w, http.StatusOK, "login", struct {
		Name, Resource, Whose, Action, Login string
		Users                                []User
		Scopes                               []string
	}{name, s.cfg.Resource, whose(l.Redirect), authorizePath, sealed, s.cfg.Users(), l.Scopes})
}

// cookie returns the name of the cookie that binds a login page to a browser. All ports of a host share
// its cookies, so the name contains the port.
func (s *Server) cookie() string {
	_, port, _ := net.SplitHostPort(s.host)
	return "busbar_login_" + port
}
