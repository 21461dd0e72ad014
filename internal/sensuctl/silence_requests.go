package sensuctl

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuimport"
)

// listSilences answers with all silences of a namespace, because sensuctl reads only the first page. The paths are
// /silenced, /silenced/subscriptions/S and /silenced/checks/C.
func (r *request) listSilences() (answer, error) {
	all, err := r.readAll("Silence")
	if err != nil {
		return answer{}, err
	}
	forms := make([]object, len(all))
	for i, m := range all {
		forms[i] = silenceForm(m)
		if len(r.names) == 2 {
			if value, _ := forms[i][strings.TrimSuffix(r.names[0], "s")].(string); !equalNames(value, r.names[1]) {
				forms[i] = nil
			}
		}
	}
	return r.selectForms(forms, "")
}

// getSilence answers with the first silence of the name in the path.
func (r *request) getSilence() (answer, error) {
	found, err := r.matchSilences()
	if err != nil {
		return answer{}, err
	}
	return answer{body: silenceForm(found[0])}, nil
}

// matchSilences returns all silences whose Sensu name is the name in the path. The name is the Sensu name
// (SUBSCRIPTION:CHECK) or the Muster name. Several silences may have the same name in Sensu.
func (r *request) matchSilences() (found []*model.Resource, err error) {
	all, err := r.readAll("Silence")
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if m.Metadata.Name == r.names[0] || equalSilenceNames(silenceName(m), r.names[0]) {
			found = append(found, m)
		}
	}
	if len(found) == 0 {
		return nil, model.Errorf(model.NotFound, "silence %s does not exist", model.Shorten(r.names[0])).WithHint("muster get silences -n %s", r.namespace)
	}
	return found, nil
}

// objectName returns the name in the metadata of an object in Sensu's format.
func objectName(o object) string {
	m, _ := o["metadata"].(object)
	name, _ := m["name"].(string)
	return name
}

// silenceName returns a silence's name in Sensu, SUBSCRIPTION:CHECK.
func silenceName(m *model.Resource) string { return objectName(silenceForm(m)) }

// equalNames reports whether two names are equal, also after characters that Muster forbids are replaced.
func equalNames(a, b string) bool { return a == b || model.CleanName(a) == model.CleanName(b) }

// equalSilenceNames reports whether two silence names SUBSCRIPTION:CHECK are equal. It splits each name at the last
// colon, and compares both parts.
func equalSilenceNames(a, b string) bool {
	i, j := strings.LastIndexByte(a, ':'), strings.LastIndexByte(b, ':')
	return i >= 0 && j >= 0 && equalNames(a[:i], b[:j]) && equalNames(a[i+1:], b[j+1:])
}

// silenceForm converts a Silence to Sensu's JSON format (Silenced). A silence whose scope is more than a subscription
// and a check keeps Muster's name, and its reason names the command that shows the scope.
func silenceForm(m *model.Resource) object {
	spec := m.Spec.(*model.SilenceSpec)
	subscription, check := "*", "*"
	expressible, where := len(spec.Statuses) == 0 && len(spec.Labels) == 0 && spec.Severity == "" && len(spec.Checks) < 2, ""
	if t := spec.Targets; t != nil {
		if expressible = expressible && t.Where == "" && t.Except == nil && len(t.Groups)+len(t.Nodes) == 1; expressible {
			subscription = subscriptionsOf(t)[0]
			if len(spec.Checks) == 0 && len(t.Groups) == 1 {
				where = sensuimport.SubscriptionCondition(t.Groups[0])
			}
		}
	}
	expressible = expressible && spec.Where == where
	if len(spec.Checks) == 1 {
		check = spec.Checks[0]
	}
	reason, creator := spec.Reason, spec.Creator
	if before, by, ok := strings.Cut(reason, " (by "); ok && strings.HasSuffix(by, ")") { // written by an import
		reason, creator = before, strings.TrimSuffix(by, ")")
	}
	begin := unixTime(spec.Begin.Time)
	if begin == 0 && m.Status != nil {
		begin = unixTime(m.Status.Created)
	}
	o := object{
		"metadata": metadataForm(m, subscription+":"+check), "expire": int64(-1), "expire_on_resolve": spec.UntilResolved,
		"creator": creator, "reason": reason, "begin": begin, "expire_at": unixTime(spec.Until.Time),
	}
	if !spec.Until.IsZero() {
		o["expire"] = unixTime(spec.Until.Time) - begin
	}
	if !expressible {
		o["metadata"] = metadataForm(m, m.Metadata.Name)
		o["reason"] = spec.Reason + " (scope: muster describe silence " + m.Metadata.Name + ")"
		return o
	}
	if subscription != "*" {
		o["subscription"] = subscription
	}
	if check != "*" {
		o["check"] = check
	}
	return o
}

// putSilence creates or replaces a silence. POST creates, and PUT also replaces the silence of the same scope.
func (r *request) putSilence() (answer, error) {
	doc, same, err := r.readDocument()
	if err != nil || same {
		return answer{status: http.StatusOK}, err
	}
	made, err := r.convertDocument(doc)
	if err != nil {
		return answer{}, err
	}
	all, err := r.readAll("Silence")
	if err != nil {
		return answer{}, err
	}
	name := silenceName(made.main)
	all = slices.DeleteFunc(all, func(is *model.Resource) bool { return !equalSilenceNames(silenceName(is), name) })
	if r.Method == http.MethodPut { // several silences may have the same scope here, and a dump has all of them
		for _, is := range all {
			if same, err := r.equalsStored(doc, silenceForm(is)); err != nil || same {
				return answer{status: http.StatusOK}, err
			}
		}
	}
	for _, is := range all {
		switch {
		case r.Method == http.MethodPost:
			return answer{}, model.Errorf(model.Conflict, "silence %s already exists", name)
		default:
			made.main.Metadata.Name, made.neededResources = is.Metadata.Name, nil
			return answer{}, r.applyDocuments(made)
		}
	}
	spec, err := json.Marshal(made.main.Spec)
	if err != nil {
		return answer{}, err
	}
	_, err = r.muster.Notifications.Silence(r.Context(), v1.SilenceRequest{Namespace: r.namespace, Spec: spec, MaxAffected: r.server.maxAffected, Yes: r.server.maxAffected == 0})
	return answer{}, addCommandHint(err, silenceCommand(r.namespace, made.main.Spec.(*model.SilenceSpec)))
}

// deleteSilence deletes all silences with the name in the path.
func (r *request) deleteSilence() (answer, error) {
	found, err := r.matchSilences()
	if err != nil {
		return answer{}, err
	}
	for _, m := range found {
		if _, err := r.muster.Notifications.EndSilence(r.Context(), m.Metadata.Namespace, m.Metadata.Name, "sensuctl silenced delete"); err != nil {
			return answer{}, err
		}
	}
	return answer{}, nil
}
