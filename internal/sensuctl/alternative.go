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

// commands are the commands of Muster for reading, creating and deleting, by type. %s is the name.
var commands = map[string][3]string{
	"checks":              {"muster get checks", "muster apply -f FILE", "muster delete check %s"},
	"entities":            {"muster get nodes", "muster apply -f FILE", "muster node retire %s (with its events), or muster delete node %s"},
	"entity-configs":      {"muster get nodes", "muster apply -f FILE", "muster node retire %s (with its events), or muster delete node %s"},
	"entity-states":       {"muster get nodes", "what is measured comes from agents", "muster node retire %s"},
	"events":              {"muster get events", "results come from agents and from POST /events of the agent's local API; muster run CHECK runs a check now", "muster event delete %s"},
	"silenced":            {"muster silence list", "muster silence --check NAME -m WHY", "muster silence end NAME (muster silence list)"},
	"namespaces":          {"muster get namespaces", "muster apply -f FILE, with kind: Namespace", "muster delete namespace %s"},
	"hooks":               {"muster get hooks", "muster apply -f FILE", "muster delete hook %s"},
	"filters":             {"muster get filters", "muster apply -f FILE", "muster delete filter %s"},
	"mutators":            {"muster get mutators", "muster apply -f FILE", "muster delete mutator %s"},
	"handlers":            {"muster get handlers", "muster apply -f FILE", "muster delete handler %s"},
	"pipelines":           {"muster get pipelines", "muster apply -f FILE", "muster delete pipeline %s"},
	"assets":              {"muster asset list", "muster asset add NAME --url URL --sha512 SUM", "muster delete asset %s"},
	"users":               {"muster auth user list", "muster auth user create NAME --role ROLE", "muster auth user delete %s"},
	"apikeys":             {"muster auth token list", "muster auth token create --role ROLE", "muster auth token revoke ID"},
	"roles":               {"muster auth user list: the roles are admin, operator, viewer, agent and alerts", "muster auth user create NAME --role ROLE", "muster auth user delete NAME"},
	"rolebindings":        {"muster auth user list: a user has one role", "muster auth user create NAME --role ROLE", "muster auth user delete NAME"},
	"clusterroles":        {"muster auth user list: the roles are admin, operator, viewer, agent and alerts", "muster auth user create NAME --role ROLE", "muster auth user delete NAME"},
	"clusterrolebindings": {"muster auth user list: a user has one role", "muster auth user create NAME --role ROLE", "muster auth user delete NAME"},
	"secrets":             {"muster get secrets", "muster apply -f FILE, with kind: Secret", "muster delete secret %s"},
	"cluster":             {"muster status", "muster status", "muster status"},
	"health":              {"muster status", "muster status", "muster status"},
	"tessen":              {"Muster sends nothing home", "Muster sends nothing home", "Muster sends nothing home"},
	"license":             {"there are no licences", "there are no licences", "there are no licences"},
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
	of, ok := commands[r.kind]
	if !ok {
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
