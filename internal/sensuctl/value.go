package sensuctl

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// object is a JSON object in Sensu's form.
type object = map[string]any

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// seconds rounds a duration up.
func seconds(d model.Duration) int64 {
	return int64((max(time.Duration(d), 0) + time.Second - 1) / time.Second)
}

// unixTime returns seconds since 1970; 0: no time.
func unixTime(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// subscriptions returns groups by their names and nodes by their entity subscriptions.
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

// shellCommand returns a command as one line for a shell, with Sensu's tokens.
func shellCommand(c *model.Command) string {
	if c == nil {
		return ""
	}
	if c.Argv == nil {
		return sensuTokens(c.Shell)
	}
	words := make([]string, len(c.Argv))
	for i, w := range c.Argv {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return sensuTokens(strings.Join(words, " "))
}

// sensuTokens writes properties as Sensu's tokens, which an import turns into the same properties.
func sensuTokens(text string) string {
	return strings.NewReplacer("{{ .props.entity_name", "{{ .name", "{{ .props.", "{{ .labels.").Replace(text)
}

func envVars(env map[string]string) []string {
	out := []string{}
	for _, name := range sortedKeys(env) {
		out = append(out, name+"="+sensuTokens(env[name]))
	}
	return out
}

func secrets(list []model.CommandSecret) []object {
	out := []object{}
	for _, s := range list {
		out = append(out, object{"name": s.Env, "secret": s.Secret})
	}
	return out
}

// list returns an empty list for nil, which Sensu's JSON does not have.
func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func references(kind string, names []string) []object {
	out := []object{}
	for _, name := range names {
		out = append(out, object{"name": name, "type": kind, "api_version": "core/v2"})
	}
	return out
}

func cronOf(c *model.CheckSpec) string {
	if c.Cron == "" {
		return ""
	}
	return "CRON_TZ=" + cmp.Or(c.TimeZone, "UTC") + " " + c.Cron
}

func bound(n *float64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatFloat(*n, 'g', -1, 64)
}

func metricTags(tags map[string]string) []object {
	out := []object{}
	for _, name := range sortedKeys(tags) {
		out = append(out, object{"name": name, "value": sensuTokens(tags[name])})
	}
	return out
}

var weekdays = map[string]string{
	"mon": "monday", "tue": "tuesday", "wed": "wednesday", "thu": "thursday", "fri": "friday", "sat": "saturday", "sun": "sunday",
}

// weekdayTimes returns spans of time in UTC by day of the week. not ok: a span has another form.
func weekdayTimes(spans []string) (out object, ok bool) {
	byDay := object{}
	for _, during := range spans {
		day, times, found := strings.Cut(during, " ")
		if !found {
			day, times = "all", during
		} else if day = weekdays[day]; day == "" {
			return nil, false
		}
		from, to, _ := strings.Cut(times, "-")
		begin, err1 := time.Parse("15:04", from)
		end, err2 := time.Parse("15:04", strings.Replace(to, "24:00", "00:00", 1))
		if err1 != nil || err2 != nil {
			return nil, false
		}
		list, _ := byDay[day].([]object)
		byDay[day] = append(list, object{"begin": begin.Format("3:04PM"), "end": end.Format("3:04PM")})
	}
	return object{"days": byDay}, true
}
