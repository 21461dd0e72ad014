package sensuimport

import "strings"

// importUser says how to make one: passwords are kept as hashes that only Sensu checks.
func importUser(o *object) {
	s := o.spec
	user, groups := s.text("username"), s.texts("groups")
	for _, known := range []string{"password", "password_hash"} {
		s.value(known)
	}
	switch {
	case s.boolean("disabled"):
		o.noteChange("user %s is disabled: left out", user)
	case user == "agent":
		o.noteChange("agents of Sensu come as such a user: muster auth user create agent --role agent")
	default:
		role := roleOf(groups)
		o.noteLoss("user %s (groups %s): muster auth user create %s --role %s", user, strings.Join(groups, ", "), name(user), role)
	}
}

func roleOf(groups []string) string {
	for _, g := range groups {
		switch g {
		case "cluster-admins", "admins":
			return "admin"
		case "system:agents":
			return "agent"
		case "ops", "operators", "editors":
			return "operator"
		}
	}
	return "viewer"
}

// roles of Sensu that have a counterpart.
var roles = map[string]string{"cluster-admin": "admin", "admin": "admin", "edit": "operator", "operator": "operator", "view": "viewer", "system:agent": "agent"}

// importBinding records the role of a user or group.
func importBinding(o *object) {
	s := o.spec
	ref := s.object("role_ref")
	ref.value("type")
	role := ref.text("name")
	var who []string
	for _, subject := range s.objects("subjects") {
		who = append(who, strings.ToLower(subject.text("type"))+" "+subject.text("name"))
	}
	if strings.HasPrefix(o.name, "system:") || strings.HasPrefix(role, "system:") {
		return // every backend has it
	}
	if ours := roles[role]; ours != "" {
		o.noteLoss("role %s for %s: give these users --role %s", role, strings.Join(who, ", "), ours)
		return
	}
	o.noteLoss("role %s for %s: the roles are admin, operator, viewer, agent and alerts", role, strings.Join(who, ", "))
}
