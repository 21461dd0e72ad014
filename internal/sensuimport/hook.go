package sensuimport

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

func importHook(o *object) {
	s := o.spec
	spec := &model.HookSpec{Command: &model.Command{Shell: translateTokens(o, "command", s.text("command"))}, Timeout: seconds(s.integer("timeout")), Stdin: s.boolean("stdin")}
	if most := seconds(60); spec.Timeout > most {
		o.noteChange("timeout: a hook may take 60s at most: the result leaves when it has ended")
		spec.Timeout = most
	}
	assets := s.texts("runtime_assets")
	if r := o.declare(spec); r.Spec == spec && len(assets) > 0 {
		o.importer.hookAssets[resourceKey{"Hook", o.targetNamespace(), r.Metadata.Name}] = assets
	}
}

func importMutator(o *object) {
	s := o.spec
	spec := &model.MutatorSpec{Env: environment(o, s.texts("env_vars")), Timeout: seconds(s.integer("timeout"))}
	if s.text("type") == "javascript" {
		spec.Javascript = s.text("eval")
	} else {
		spec.Command = &model.Command{Shell: s.text("command")}
		spec.Secrets = commandSecrets(o, "mutator")
	}
	spec.Assets = assetsOf(o, "mutator")
	o.declare(spec)
}

func importFilter(o *object) {
	s := o.spec
	spec := &model.FilterSpec{Action: s.text("action"), Expressions: s.texts("expressions")}
	spec.Assets = assetsOf(o, "filter")
	days := s.object("when").object("days")
	var spans []model.WindowSpan
	for _, day := range slices.Sorted(maps.Keys(days.values)) {
		for _, span := range days.objects(day) {
			during, ok := dayTime(day, span.text("begin"), span.text("end"))
			if !ok {
				o.noteLoss("when: %s %s to %s is no time", day, span.values["begin"], span.values["end"])
				continue
			}
			spans = append(spans, model.WindowSpan{During: during})
		}
	}
	if len(spans) > 0 {
		spec.When = &model.FilterWhen{TimeZone: "UTC", Spans: spans}
	}
	o.declare(spec)
}

// dayTime is a span of one day of the week, or of all: begin and end are "3:00 PM", in UTC.
func dayTime(day, begin, end string) (during string, ok bool) {
	from, okFrom := clock(begin)
	to, okTo := clock(end)
	if !okFrom || !okTo {
		return "", false
	}
	if to == "00:00" {
		to = "24:00"
	}
	during = from + "-" + to
	if day = strings.ToLower(day); day != "all" {
		if len(day) < 3 || !slices.Contains([]string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}, day) {
			return "", false
		}
		during = day[:3] + " " + during
	}
	return during, true
}

func clock(text string) (string, bool) {
	for _, layout := range []string{"3:04 PM", "3:04PM", "15:04"} {
		if t, err := time.Parse(layout, strings.ToUpper(strings.TrimSpace(text))); err == nil {
			return t.Format("15:04"), true
		}
	}
	return "", false
}
