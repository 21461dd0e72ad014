package sensuctl

import (
	"net/http"
	"strings"
)

// noOperation is the error for a request that Muster answers by another command.
func noOperation(r *request) error {
	text := commandFor(r)
	if strings.HasPrefix(text, "muster ") {
		text = "type " + text
	}
	return &sensuError{http.StatusNotImplemented, "not by sensuctl: " + text, codeNotFound}
}

// commandFor returns the command of Muster for a request.
func commandFor(r *request) string {
	switch kind, last := r.kind, len(r.names)-1; {
	case kind == "checks" && last == 1 && r.names[1] == "execute":
		return "muster run " + r.name(0)
	case kind == "checks" && last > 0:
		return "muster edit check " + r.name(0)
	case kind == "users" && last == 1 && (r.names[1] == "password" || r.names[1] == "change_password"):
		return "muster auth password"
	case kind == "users" && last == 1 && r.names[1] == "reset_password":
		return "muster auth reset-password --data DIR --user " + r.name(0) + ", on the server's machine"
	}
	of := commandsOf(r.kind)
	if of == [3]string{} {
		return "muster help: " + r.group + " " + r.kind + " is nothing that Muster knows"
	}
	text := of[1]
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		text = of[0]
	case http.MethodDelete:
		text = of[2]
	}
	name := r.name(0)
	if r.kind == "events" && len(r.names) > 1 {
		name += "/" + r.name(1)
	}
	if name == "" {
		name = "NAME"
	}
	return strings.ReplaceAll(text, "%s", name)
}
