package sensuctl

import (
	"cmp"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// notCarried is the annotation of what sensuctl sent and is not done here.
const notCarried = "sensuctl/not-carried"

// called is the name that sensuctl shows: Sensu's own, where an import kept it because it is
// none here.
func called(m *model.Resource) string { return shownAs(m.Metadata.Name, m.Metadata.DisplayName) }

func shownAs(name, before string) string {
	if model.CleanName(before) == name {
		return before
	}
	return name
}

// metadata is that of a resource.
func metadata(m *model.Resource) object { return meta(called(m), m.Metadata.Namespace, m.Metadata) }

func meta(name, namespace string, m model.Metadata) object {
	out := object{"name": name, "namespace": namespace}
	if len(m.Labels) > 0 {
		out["labels"] = m.Labels
	}
	if len(m.Annotations) > 0 {
		out["annotations"] = m.Annotations
	}
	return out
}

// seconds of a duration, at least one where there is any.
func seconds(d model.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((time.Duration(d) + time.Second - 1) / time.Second)
}

func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// subscriptions that reach what targets reach: groups, and nodes by the subscription that each
// entity has of its own.
func subscriptions(t *model.Targets) []string {
	out := []string{}
	if t == nil {
		return out
	}
	out = append(out, t.Groups...)
	for _, node := range t.Nodes {
		out = append(out, "entity:"+node)
	}
	return out
}

// commandText is a command as one line for a shell, with Sensu's tokens.
func commandText(c *model.Command) string {
	if c == nil {
		return ""
	}
	if c.Argv == nil {
		return tokensOf(c.Shell)
	}
	words := make([]string, len(c.Argv))
	for i, w := range c.Argv {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return tokensOf(strings.Join(words, " "))
}

// tokensOf writes properties as Sensu's tokens, of which an import makes the same properties.
func tokensOf(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "{{ .props.entity_name", "{{ .name"), "{{ .props.", "{{ .labels.")
}

func lines(env map[string]string) []string {
	out := []string{}
	for _, name := range sorted(env) {
		out = append(out, name+"="+tokensOf(env[name]))
	}
	return out
}

func orElse(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func cronOf(c *model.CheckSpec) string {
	if c.Cron == "" {
		return ""
	}
	return "CRON_TZ=" + cmp.Or(c.TimeZone, "UTC") + " " + c.Cron
}
