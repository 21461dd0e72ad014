package sensuctl

import (
	"encoding/json"
	"strings"
	"testing"
)

// The roles that are here are listed and shown as Sensu's, and what they say is so; those of a dump may be
// given back, and no others are made.
func TestReadRoles(t *testing.T) {
	w := newWorld(t)
	var list []struct {
		Metadata struct{ Name string }
		Rules    []struct{ Verbs, Resources []string }
		RoleRef  struct{ Name string } `json:"role_ref"`
		Subjects []struct{ Type, Name string }
	}
	groups := map[string]string{}
	for _, kind := range []string{"clusterroles", "clusterrolebindings"} {
		list = nil
		if err := json.Unmarshal([]byte(w.expect(200, "GET", "/api/core/v2/"+kind+"?types=X&limit=100", "")), &list); err != nil {
			t.Fatal(err)
		}
		if len(list) != 4 {
			t.Errorf("%s: %+v", kind, list)
		}
		for _, one := range list {
			text := w.expect(200, "GET", "/api/core/v2/"+kind+"/"+one.Metadata.Name, "")
			w.expect(200, "PUT", "/api/core/v2/"+kind+"/"+one.Metadata.Name, text)
			if kind == "clusterroles" && len(one.Rules) == 0 {
				t.Errorf("%+v", one)
			}
			for _, s := range one.Subjects {
				groups[s.Name] = one.RoleRef.Name
			}
		}
	}
	for role, group := range groupOf {
		if groups[group] == "" {
			t.Errorf("users with the role %s are in the group %s, which has no role", role, group)
		}
	}
	w.expect(501, "PUT", "/api/core/v2/clusterroles/view", `{"metadata":{"name":"view"},"rules":[{"verbs":["*"],"resources":["*"]}]}`)
	w.expect(404, "GET", "/api/core/v2/clusterroles/edit", "")
	for _, kind := range []string{"roles", "rolebindings"} {
		if text := strings.TrimSpace(w.expect(200, "GET", core+"/"+kind, "")); text != "[]" {
			t.Errorf("%s: %s", kind, text)
		}
		w.expect(200, "GET", "/api/core/v2/"+kind, "")
		w.expect(404, "GET", core+"/"+kind+"/x", "")
		w.expect(404, "GET", "/api/core/v2/namespaces/nope/"+kind, "")
	}
	if text := w.expect(200, "GET", "/api/core/v2/clusterroles?fieldSelector=clusterrole.name%20%3D%3D%20view", ""); !strings.Contains(text, "view") || strings.Contains(text, "operator") {
		t.Error(text)
	}
	w.expect(422, "GET", "/api/core/v2/clusterroles?fieldSelector=check.name%20%3D%3D%20view", "")
}
