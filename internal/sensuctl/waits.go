package sensuctl

import (
	"context"
	"slices"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuimport"
)

// waitsFor is the annotation of what a check names and is not there yet: sensuctl sends checks
// before the handlers and hooks of the same file. Each is written handler NAME, pipeline NAME or
// hook NAME TYPE or asset NAME; when that comes, the check gets it.
const waitsFor = "sensuctl/waits-for"

// waits are what a check names besides those that are there.
func (d *document) waits(there []*model.Resource) (out []string) {
	is := func(kind, name string) bool {
		return slices.ContainsFunc(there, func(m *model.Resource) bool { return m.Kind == kind && m.Metadata.Name == name })
	}
	add := func(kind, name, more string) {
		if clean := model.CleanName(name); clean != "" && !is(kind, clean) && len(out) < maxNamed {
			out = append(out, strings.TrimSpace(strings.ToLower(kind)+" "+clean+" "+more))
		}
	}
	for _, h := range texts(d.spec["handlers"]) {
		if !is("Pipeline", sensuimport.PipelineOf(h)) {
			add("Handler", h, "")
		}
	}
	for _, p := range objects(d.spec["pipelines"]) {
		for _, name := range refOf(p) {
			add("Pipeline", name, "")
		}
	}
	for _, list := range objects(d.spec["check_hooks"]) {
		for _, when := range sorted(list) {
			for _, name := range texts(list[when]) {
				add("Hook", name, when)
			}
		}
	}
	for _, a := range texts(d.spec["runtime_assets"]) {
		add("Asset", a, "")
	}
	return out
}

// arrived gives the checks that wait for a handler, pipeline, hook or asset what they waited for.
func (s *Server) arrived(ctx context.Context, r *request, made *converted) error {
	var waited []*model.Resource
	for after := ""; ; {
		list, next, err := resources(ctx, r, "Check", pageSize, after)
		if err != nil {
			return err
		}
		for _, m := range list {
			if gets(m, strings.TrimSuffix(r.kind, "s"), made.name, made) {
				waited = append(waited, m)
			}
		}
		if next == "" {
			break
		}
		after = next
	}
	if len(waited) == 0 {
		return nil
	}
	return s.send(ctx, r, v1.ApplyRequest{Message: "by sensuctl: " + r.kind + " " + made.name + " is there now"}, waited)
}

// gets lets a check have what it waits for, if it does.
func gets(m *model.Resource, kind, name string, made *converted) (found bool) {
	c, ok := m.Spec.(*model.CheckSpec)
	if !ok || m.Metadata.Annotations[waitsFor] == "" {
		return false
	}
	var left []string
	for _, one := range strings.Split(m.Metadata.Annotations[waitsFor], ", ") {
		words := strings.Fields(one)
		if len(words) < 2 || words[0] != kind || words[1] != name {
			left = append(left, one)
			continue
		}
		found = true
		switch {
		case c.Passive && (kind == "hook" || kind == "asset"): // nothing runs that could use it
		case kind == "hook" && len(words) == 3:
			addHook(c, name, words[2])
		case kind == "asset" && len(c.Assets) == model.MaxAssets:
			left, found = append(left, one), false
		case kind == "asset":
			c.Assets = with(c.Assets, name)
		case kind == "pipeline":
			c.Pipelines = with(c.Pipelines, name)
		case kind == "handler" && made.reads():
			c.Pipelines = with(c.Pipelines, sensuimport.PipelineOf(name))
		case kind == "handler":
			if c.Alert == nil {
				c.Alert = &model.Alert{}
			}
			c.Alert.Handlers = with(c.Alert.Handlers, name)
		}
	}
	if !found {
		return false
	}
	annotate(m, waitsFor, left, ", ")
	var lost []string
	for _, text := range strings.Split(m.Metadata.Annotations[notCarried], "; ") {
		missing, ok := strings.CutSuffix(text, " is not there yet")
		if of, is := strings.CutPrefix(missing, kind+" "); text != "" && !(ok && is && model.CleanName(of) == name) {
			lost = append(lost, text)
		}
	}
	annotate(m, notCarried, lost, "; ")
	return true
}

// reads says whether the handler that was made gets Sensu's events, by a pipeline.
func (c *converted) reads() bool {
	return c.main.Kind == "Pipeline" || slices.ContainsFunc(c.beside, func(m *model.Resource) bool { return m.Kind == "Pipeline" })
}

func with(list []string, one string) []string {
	if slices.Contains(list, one) {
		return list
	}
	return append(list, one)
}

// annotate writes a list, or takes the annotation away where there is none.
func annotate(m *model.Resource, name string, list []string, between string) {
	if len(list) == 0 {
		delete(m.Metadata.Annotations, name)
		return
	}
	if m.Metadata.Annotations == nil {
		m.Metadata.Annotations = map[string]string{}
	}
	m.Metadata.Annotations[name] = cut(strings.Join(list, between), 16<<10)
}
