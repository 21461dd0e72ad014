package sensuimport

import (
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// handler keeps what Sensu had. One that is a set is taken apart where it is named.
func (im *importer) handler(o *object) {
	s := o.spec
	spec := &model.HandlerSpec{Timeout: seconds(s.whole("timeout")), Env: im.env(o, s.texts("env_vars"))}
	s.take("filters") // by who names it: hears
	s.take("mutator")
	switch kind := s.text("type"); kind {
	case "pipe":
		command := s.text("command")
		if im.plugin(o, command, spec) {
			spec.Env = nil
			break
		}
		spec.Command = &model.Command{Shell: command}
	case "tcp", "udp":
		socket := s.object("socket")
		address := fmt.Sprintf("%s:%d", socket.text("host"), socket.whole("port"))
		if kind == "tcp" {
			spec.TCP = &model.TCP{Address: address}
		} else {
			spec.UDP = &model.UDP{Address: address}
		}
	case "set":
		s.take("handlers")
		return
	default:
		im.lost(o, "handlers of the type %q are not known", kind)
		return
	}
	if spec.Command != nil {
		spec.Assets = im.assetsOf(o, "handler")
	}
	s.take("runtime_assets") // what speaks for itself needs none
	if spec.Command != nil {
		spec.Secrets = im.commandSecrets(o, "handler")
	} else {
		for _, secret := range s.objects("secrets") {
			of, as := secret.text("secret"), secret.text("name")
			im.lost(o, "secret %s as %s: write {secret: %s} where the key or the password stands", of, as, model.CleanName(of))
		}
	}
	im.declare(o, spec)
}

// stream is a pool of connections.
func (im *importer) stream(o *object) {
	s := o.spec
	spec := &model.HandlerSpec{Stream: &model.Stream{Address: s.text("address"), Connections: s.whole("max_connections")}}
	if spec.Stream.Connections > model.MaxStreamConnections {
		im.said(o, "max_connections: %d connections are the most here, and are enough: they are never waited for", model.MaxStreamConnections)
		spec.Stream.Connections = model.MaxStreamConnections
	}
	s.take("min_reconnect_delay")
	s.take("max_reconnect_delay")
	im.declare(o, spec)
}

// kept says whether a handler gets Sensu's events, by a pipeline: it is a program or socket
// that reads them.
func kept(h *model.HandlerSpec) bool {
	return h.Command != nil || h.TCP != nil || h.UDP != nil || h.Stream != nil
}

// hears lets a handler hear of a check's events: one that speaks for itself is told of
// problems, others get events as Sensu wrote them, by a pipeline that is made for them.
func (im *importer) hears(o *object, c *model.CheckSpec, handler string, filters []string) {
	if im.hearsBeside(o, c, handler, filters) {
		return
	}
	for _, h := range im.apart(o, handler, 0) {
		ours, ok := im.made[made{"Handler", im.ns(o), name(h.name)}]
		if !ok {
			im.lost(o, "handler %s is not in these files, or was not carried", h.name)
			continue
		}
		named := h.spec.texts("filters")
		for _, f := range filters {
			if !slices.Contains(named, f) {
				named = append(named, f)
			}
		}
		mutator := h.spec.text("mutator")
		if !kept(ours.Spec.(*model.HandlerSpec)) && incidents(named) {
			alert := im.alert(c)
			if !slices.Contains(alert.Handlers, ours.Metadata.Name) {
				alert.Handlers = append(alert.Handlers, ours.Metadata.Name)
			}
			continue
		}
		pipeline := model.SensuPipeline(ours.Metadata.Name)
		if slices.Contains(c.Pipelines, pipeline) {
			continue // a handler hears once of an event, also where the check names it for metrics besides
		}
		if len(named) > len(h.spec.texts("filters")) {
			pipeline += "-metrics"
		}
		flow := model.Workflow{Name: ours.Metadata.Name, Handler: ours.Metadata.Name}
		im.filtered(h, &flow, named, mutator)
		im.add(im.ns(o), pipeline, &model.PipelineSpec{Workflows: []model.Workflow{flow}})
		if !slices.Contains(c.Pipelines, pipeline) {
			c.Pipelines = append(c.Pipelines, pipeline)
		}
	}
}

// unnamed makes the pipeline of each handler that reads Sensu's events and that nothing in these
// files names, of each that is filtered by more than routes do by themselves, and of each set: agents
// name handlers, too, for their keepalives and for what their local API brings.
func (im *importer) unnamed() {
	for i := range im.objects {
		o := &im.objects[i]
		if o.kind != "Handler" && o.kind != "TCPStreamHandler" || im.made[made{"Pipeline", im.ns(o), model.SensuPipeline(name(o.name))}] != nil {
			continue
		}
		ours := im.made[made{"Handler", im.ns(o), name(o.name)}]
		switch {
		case ours != nil && (kept(ours.Spec.(*model.HandlerSpec)) || slices.ContainsFunc(o.spec.texts("filters"), byHand)):
			var nobody model.CheckSpec
			im.hears(o, &nobody, o.name, nil)
		case ours == nil && o.spec.text("type") == "set":
			im.set(o)
		}
	}
}

// SetOf is the annotation of a pipeline that is a set of Sensu's: its members, NAME, NAME. By it the set
// follows handlers that sensuctl changes.
const SetOf = "sensuctl/set-of"

const mostSetOf = 16 << 10

// set makes the pipeline that an agent reaches by the name of a set. Checks that name it name its
// handlers instead.
func (im *importer) set(o *object) {
	spec := &model.PipelineSpec{}
	for _, h := range im.apart(o, o.name, 0) {
		flow := model.Workflow{Name: name(h.name), Handler: name(h.name)}
		switch {
		case im.made[made{"Handler", im.ns(o), flow.Handler}] == nil:
			im.lost(o, "handler %s was not carried", h.name)
		case !slices.ContainsFunc(spec.Workflows, func(w model.Workflow) bool { return w.Handler == flow.Handler }):
			im.filtered(h, &flow, h.spec.texts("filters"), h.spec.text("mutator"))
			spec.Workflows = append(spec.Workflows, flow)
		}
	}
	if len(spec.Workflows) == 0 {
		return
	}
	var members []string
	for _, h := range o.spec.texts("handlers") {
		if h = name(h); !slices.Contains(members, h) {
			members = append(members, h)
		}
	}
	text := strings.Join(members, ", ")
	if m := im.add(im.ns(o), model.SensuPipeline(name(o.name)), spec); m.Spec == spec && len(text) <= mostSetOf {
		m.Metadata.Annotations = map[string]string{SetOf: text}
	}
}

// incidents says whether filters let pass what opens and closes a problem, as routes do by
// themselves: silences hold, and nothing else is asked.
func incidents(filters []string) bool {
	return slices.Contains(filters, model.FilterIncident) && !slices.ContainsFunc(filters, byHand)
}

// byHand says whether a filter asks for more than routes do by themselves.
func byHand(filter string) bool {
	return filter != model.FilterIncident && filter != model.FilterNotSilenced
}

// apart are the handlers of a set, and of sets in it.
func (im *importer) apart(o *object, handler string, depth int) []*object {
	h := im.by[key{"Handler", o.namespace, handler}]
	if h == nil {
		h = im.by[key{"TCPStreamHandler", o.namespace, handler}]
	}
	switch {
	case h == nil && im.there(o, "Handler", name(handler)) != nil:
		return []*object{{kind: "Handler", name: handler, namespace: o.namespace, meta: newFields("", nil), spec: newFields("", nil)}}
	case h == nil:
		im.lost(o, "handler %s is not in these files", handler)
		return nil
	case h.spec.text("type") != "set":
		return []*object{h}
	case depth > 3:
		im.lost(o, "handler %s: sets within sets within sets", handler)
		return nil
	}
	var list []*object
	for _, inner := range h.spec.texts("handlers") {
		list = append(list, im.apart(o, inner, depth+1)...)
	}
	return list
}

// pipeline keeps one that Sensu had.
func (im *importer) pipeline(o *object) {
	spec := &model.PipelineSpec{}
	for _, w := range o.spec.objects("workflows") {
		ref := func(field string) string {
			r := w.object(field)
			r.take("api_version")
			r.take("type")
			return r.text("name")
		}
		handler := ref("handler")
		var filters []string
		for _, f := range w.objects("filters") {
			f.take("api_version")
			f.take("type")
			filters = append(filters, f.text("name"))
		}
		mutator := ref("mutator")
		list := im.apart(o, handler, 0)
		for i, h := range list {
			if im.made[made{"Handler", im.ns(o), name(h.name)}] == nil {
				im.lost(o, "handler %s was not carried", h.name)
				continue
			}
			flow := model.Workflow{Name: name(w.text("name")), Handler: name(h.name)}
			if len(list) > 1 {
				flow.Name = fmt.Sprintf("%s-%d", flow.Name, i+1)
			}
			im.filtered(o, &flow, filters, mutator)
			spec.Workflows = append(spec.Workflows, flow)
		}
	}
	if len(spec.Workflows) == 0 {
		im.lost(o, "no workflow of it was carried")
		return
	}
	im.declare(o, spec)
}

// filtered gives a workflow its filters and mutator. One that is not there would let pass what
// nobody wanted: it denies all instead, and says so.
func (im *importer) filtered(o *object, flow *model.Workflow, filters []string, mutator string) {
	for _, f := range filters {
		ref := name(f)
		if !model.BuiltinFilter(f) && im.made[made{"Filter", im.ns(o), ref}] == nil {
			im.lost(o, "filter %s is not in these files: the workflow passes nothing until it is written", f)
			im.add(im.ns(o), ref, &model.FilterSpec{Action: "allow", Expressions: []string{"false"}})
		}
		flow.Filters = append(flow.Filters, ref)
	}
	if mutator == "" || mutator == model.MutatorJSON {
		return
	}
	if !model.BuiltinMutator(mutator) && im.made[made{"Mutator", im.ns(o), name(mutator)}] == nil {
		im.lost(o, "mutator %s is not in these files: the handler gets the event as it is", mutator)
		return
	}
	flow.Mutator = name(mutator)
}
