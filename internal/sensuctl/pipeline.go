package sensuctl

import (
	"net"
	"strconv"

	"github.com/muster-fleet/muster/internal/model"
)

func (v *view) namespace(m *model.Resource) (object, error) {
	return object{"name": m.Metadata.Name}, nil
}

func (v *view) hook(m *model.Resource) (object, error) {
	h := m.Spec.(*model.HookSpec)
	timeout := seconds(h.Timeout)
	if timeout == 0 {
		timeout = 10
	}
	return object{"metadata": metadata(m, sensuName(m)), "command": shellCommand(h.Command), "timeout": timeout, "stdin": h.Stdin, "runtime_assets": []string{}}, nil
}

// filter has no form for one with other times than by day in UTC.
func (v *view) filter(m *model.Resource) (object, error) {
	f := m.Spec.(*model.FilterSpec)
	o := object{"metadata": metadata(m, sensuName(m)), "action": f.Action, "expressions": nonNil(f.Expressions), "runtime_assets": nonNil(f.Assets), "when": nil}
	if f.When == nil {
		return o, nil
	}
	var spans []string
	for _, s := range f.When.Spans {
		spans = append(spans, s.During) // an empty one has another form
	}
	when, ok := weekdayTimes(spans)
	if !ok || f.When.Window != "" || f.When.TimeZone != "UTC" {
		return nil, nil
	}
	o["when"] = when
	return o, nil
}

func (v *view) mutator(m *model.Resource) (object, error) {
	u := m.Spec.(*model.MutatorSpec)
	o := object{"metadata": metadata(m, sensuName(m)), "timeout": seconds(u.Timeout), "env_vars": envVars(u.Env), "runtime_assets": nonNil(u.Assets), "secrets": secrets(u.Secrets)}
	if u.Javascript != "" {
		o["type"], o["eval"] = "javascript", u.Javascript
	} else {
		o["type"], o["command"] = "pipe", shellCommand(u.Command)
	}
	return o, nil
}

// handler has a form for programs and sockets only, with the filters and the mutator of the pipeline that an import
// makes of these.
func (v *view) handler(m *model.Resource) (object, error) {
	h := m.Spec.(*model.HandlerSpec)
	o := object{"metadata": metadata(m, sensuName(m)), "timeout": seconds(h.Timeout), "env_vars": envVars(h.Env), "filters": []string{}, "handlers": []string{}, "runtime_assets": nonNil(h.Assets), "secrets": secrets(h.Secrets)}
	switch {
	case h.Command != nil:
		o["type"], o["command"] = "pipe", shellCommand(h.Command)
	case h.TCP != nil:
		o["type"], o["socket"] = "tcp", socket(h.TCP.Address)
	case h.UDP != nil:
		o["type"], o["socket"] = "udp", socket(h.UDP.Address)
	default:
		return nil, nil
	}
	own, err := v.find("Pipeline", m.Metadata.Namespace, model.SensuPipeline(m.Metadata.Name))
	if err != nil || own == nil {
		return o, err
	}
	if p, ok := own.Spec.(*model.PipelineSpec); ok && len(p.Workflows) == 1 && p.Workflows[0].Handler == m.Metadata.Name {
		o["filters"], o["mutator"] = nonNil(p.Workflows[0].Filters), p.Workflows[0].Mutator
	}
	return o, nil
}

func (v *view) pipeline(m *model.Resource) (object, error) {
	p := m.Spec.(*model.PipelineSpec)
	flows := []object{}
	for _, w := range p.Workflows {
		o := object{"name": w.Name, "filters": references("EventFilter", w.Filters), "handler": references("Handler", []string{w.Handler})[0]}
		if w.Mutator != "" {
			o["mutator"] = references("Mutator", []string{w.Mutator})[0]
		}
		flows = append(flows, o)
	}
	return object{"metadata": metadata(m, sensuName(m)), "workflows": flows}, nil
}

func socket(address string) object {
	host, port, _ := net.SplitHostPort(address)
	n, _ := strconv.Atoi(port)
	return object{"host": host, "port": n}
}
