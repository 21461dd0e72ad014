package sensuimport

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// importHandler imports a handler of Sensu. If Muster has a built-in handler for the program, it imports that one. A
// handler set becomes workflows in the checks and pipelines that name the set.
func importHandler(o *object) {
	s := o.spec
	spec := &model.HandlerSpec{Timeout: handlerTimeout(o), Env: environmentOf(o, s.texts("env_vars"))}
	s.ignore("filters", "mutator") // routeTo reads them
	switch kind := s.text("type"); kind {
	case "pipe":
		command := s.text("command")
		if o.importer.server == nil && importPlugin(o, command, spec) { // sensuctl shows a handler as it was sent
			spec.Env = nil
			break
		}
		spec.Command = &model.Command{Shell: model.LiteralText(command)}
	case "tcp", "udp":
		socket := s.object("socket")
		address := fmt.Sprintf("%s:%d", socket.text("host"), socket.integer("port"))
		if kind == "tcp" {
			spec.TCP = &model.TCP{Address: address}
		} else {
			spec.UDP = &model.UDP{Address: address}
		}
	case "set":
		s.ignore("handlers")
		return
	default:
		o.noteLoss("handlers of type %q are not supported", kind)
		return
	}
	if spec.Command != nil {
		spec.Assets, spec.Secrets = assetsOf(o, "handler"), commandSecrets(o, "handler")
	} else {
		s.ignore("runtime_assets") // Muster's own handlers need none
		for _, secret := range s.objects("secrets") {
			of, as := secret.text("secret"), secret.text("name")
			o.noteLoss("secret %s as %s: write {secret: %s} where the key or the password stands", of, as, model.CleanName(of))
		}
	}
	for name, value := range spec.Env { // Sensu expands no tokens of handlers, so that plug-ins get their own templates
		spec.Env[name] = model.LiteralText(value)
	}
	o.declareResource(spec)
}

// handlerTimeout returns the timeout of a handler or mutator. A longer one than Muster allows becomes the longest.
func handlerTimeout(o *object) model.Duration {
	timeout, most := seconds(o.spec.integer("timeout")), seconds(600)
	if timeout > most {
		o.noteChange("timeout: %s at most, because a message that hangs delays later messages about the same event", most)
		return most
	}
	return timeout
}

// importStream imports a handler of type tcp_stream, which keeps its TCP connections open. Such a handler keeps its
// TCP connections open.
func importStream(o *object) {
	s := o.spec
	spec := &model.HandlerSpec{Stream: &model.Stream{Address: s.text("address"), Connections: s.integer("max_connections")}}
	if spec.Stream.Connections > model.MaxStreamConnections {
		o.noteChange("max_connections: at most %d connections, which are enough: a message never waits for a connection", model.MaxStreamConnections)
		spec.Stream.Connections = model.MaxStreamConnections
	}
	if spec.Stream.CA = s.text("tls_ca_cert_file"); spec.Stream.CA != "" {
		spec.Stream.TLS = true
		o.noteChange("tls_ca_cert_file: the server reads %s at its machine", spec.Stream.CA)
	}
	s.ignore("min_reconnect_delay", "max_reconnect_delay")
	o.declareResource(spec)
}

// readsEvents reports whether a Sensu handler must get each event in Sensu's format, from a pipeline. Programs
// and sockets do.
func readsEvents(h *model.HandlerSpec) bool {
	return h.Command != nil || h.TCP != nil || h.UDP != nil || h.Stream != nil
}

// routeToHandler makes a check's problems or events reach an imported handler, by alert settings or a pipeline.
// A built-in handler gets problems; a program or socket gets events by a pipeline of its own.
func routeToHandler(o *object, c *model.CheckSpec, handler string, filters []string) {
	if routeToExisting(o, c, handler, filters) {
		return
	}
	before := len(o.importer.result.Notes)
	list := handlersOf(o, handler, 0)
	for i := range o.importer.result.Notes[before:] {
		if n := &o.importer.result.Notes[before+i]; n.Missing != "" && len(filters) > 0 {
			n.Missing += " metrics"
		}
	}
	for _, h := range list {
		ours := o.findResource("Handler", musterName(h.name))
		if ours == nil {
			o.noteLoss("handler %s is not in these files, or not imported", h.name)
			continue
		}
		named := h.spec.texts("filters")
		for _, f := range filters {
			named = appendNew(named, f)
		}
		mutator := h.spec.text("mutator")
		if !readsEvents(ours.Spec.(*model.HandlerSpec)) && passesIncidentsOnly(named) {
			alert := ensureAlert(c)
			alert.Handlers = appendNew(alert.Handlers, ours.Metadata.Name)
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
		addFilters(h, &flow, named, mutator)
		o.addResource(pipeline, &model.PipelineSpec{Workflows: []model.Workflow{flow}})
		c.Pipelines = appendNew(c.Pipelines, pipeline)
	}
}

// importHandlerPipeline adds a pipeline for a handler, because events of agents may refer to the handler by
// name. The handler has no check, or filters that routes cannot express.
func importHandlerPipeline(o *object) {
	if o.kind != "Handler" && o.kind != "TCPStreamHandler" || o.importer.created[resourceKey{"Pipeline", o.targetNamespace(), PipelineOf(o.name)}] != nil {
		return
	}
	made := o.importer.created[resourceKey{"Handler", o.targetNamespace(), musterName(o.name)}]
	switch {
	case made != nil && (readsEvents(made.Spec.(*model.HandlerSpec)) || slices.ContainsFunc(o.spec.texts("filters"), isCustomFilter)):
		routeToHandler(o, &model.CheckSpec{}, o.name, nil) // a check that is dropped: only the pipeline stays
	case made == nil && o.spec.text("type") == "set":
		importHandlerSet(o)
	}
}

// SetOf is the annotation of a pipeline that was imported from a handler set: the names of its members in Sensu,
// separated by ", ". sensuctl shows the set by it, and converts it again after a change of its members.
const SetOf = "sensuctl/set-of"

const mostSetOf = 16 << 10

// importHandlerSet converts a handler set to a pipeline, so that agents' events can still refer to the set.
// Checks that name it name its handlers instead.
func importHandlerSet(o *object) {
	spec := &model.PipelineSpec{}
	for _, h := range handlersOf(o, o.name, 0) {
		flow := model.Workflow{Name: musterName(h.name), Handler: musterName(h.name)}
		switch {
		case o.findResource("Handler", flow.Handler) == nil:
			o.noteLoss("handler %s was not imported", h.name)
		case !slices.ContainsFunc(spec.Workflows, func(w model.Workflow) bool { return w.Handler == flow.Handler }):
			addFilters(h, &flow, h.spec.texts("filters"), h.spec.text("mutator"))
			spec.Workflows = append(spec.Workflows, flow)
		}
	}
	if len(spec.Workflows) == 0 && o.importer.server == nil { // on a server the members may follow
		return
	}
	var members []string
	for _, h := range o.spec.texts("handlers") {
		members = appendNew(members, h)
	}
	m := o.addResource(model.SensuPipeline(musterName(o.name)), spec)
	if m.Spec != spec {
		return
	}
	m.Metadata.Labels, m.Metadata.Annotations = metadataOf(o, "labels"), metadataOf(o, "annotations")
	if m.Metadata.Annotations == nil {
		m.Metadata.Annotations = map[string]string{}
	}
	if musterName(o.name) != o.name {
		m.Metadata.DisplayName = o.name
	}
	if text := strings.Join(members, ", "); len(text) <= mostSetOf {
		m.Metadata.Annotations[SetOf] = text
	}
}

// passesIncidentsOnly reports whether filters pass exactly Sensu's incidents, for which Muster's routes need no
// filter. These are problems that open or close and are not silenced.
func passesIncidentsOnly(filters []string) bool {
	return slices.Contains(filters, model.FilterIncident) && !slices.ContainsFunc(filters, isCustomFilter)
}

// isCustomFilter reports whether a filter is other than Sensu's usual filters is_incident and not_silenced.
// Muster's routes always apply these two filters.
func isCustomFilter(filter string) bool {
	return filter != model.FilterIncident && filter != model.FilterNotSilenced
}

// handlerNamed returns the Sensu handler with the given name from the imported files. It looks in the object's
// namespace, and returns nil if no handler has the name.
func (o *object) handlerNamed(name string) *object {
	by := o.importer.objectsByKey
	return cmp.Or(by[resourceKey{"Handler", o.namespace, name}], by[resourceKey{"TCPStreamHandler", o.namespace, name}])
}

// handlersOf returns the handlers that a Sensu handler set contains, directly or by nested sets. For a plain
// handler it returns the handler itself.
func handlersOf(o *object, handler string, depth int) []*object {
	h := o.handlerNamed(handler)
	if h == nil {
		h = existingHandler(o, handler)
	}
	switch {
	case h == nil:
		o.noteMissing("handler", handler, "")
		return nil
	case h.spec.text("type") != "set":
		return []*object{h}
	case depth > 3:
		o.noteLoss("handler %s: sets are nested too deeply", handler)
		return nil
	}
	var list []*object
	for _, inner := range h.spec.texts("handlers") {
		list = append(list, handlersOf(o, inner, depth+1)...)
	}
	return list
}

// importPipeline imports a pipeline.
func importPipeline(o *object) {
	spec := &model.PipelineSpec{}
	for _, w := range o.spec.objects("workflows") {
		handler, mutator := w.object("handler").reference(), w.object("mutator").reference()
		var filters []string
		for _, f := range w.objects("filters") {
			filters = append(filters, f.reference())
		}
		list := handlersOf(o, handler, 0)
		for i, h := range list {
			if o.findResource("Handler", musterName(h.name)) == nil {
				o.noteLoss("handler %s was not imported", h.name)
				continue
			}
			flow := model.Workflow{Name: musterName(w.text("name")), Handler: musterName(h.name)}
			if len(list) > 1 {
				flow.Name = fmt.Sprintf("%s-%d", flow.Name, i+1)
			}
			addFilters(o, &flow, filters, mutator)
			spec.Workflows = append(spec.Workflows, flow)
		}
	}
	if len(spec.Workflows) == 0 {
		o.noteLoss("no workflow of the pipeline was imported: the pipeline drops every event")
	}
	o.declareResource(spec)
}

// addFilters adds a Sensu handler's own filters and mutator to the pipeline workflow made for the handler. A
// filter that does not exist is created to deny all, because without it the workflow would pass every event. A
// mutator that does not exist is created to fail, as Sensu drops an event without its mutator.
func addFilters(o *object, flow *model.Workflow, filters []string, mutator string) {
	for _, f := range filters {
		ref := musterName(f)
		if !model.IsBuiltinFilter(f) && o.findResource("Filter", ref) == nil {
			o.noteStub("filter", f)
			o.addResource(ref, &model.FilterSpec{Action: "allow", Expressions: []string{"false"}})
		}
		flow.Filters = append(flow.Filters, ref)
	}
	if mutator == "" || mutator == model.MutatorJSON {
		return
	}
	ref := musterName(mutator)
	if !model.IsBuiltinMutator(mutator) && o.findResource("Mutator", ref) == nil {
		o.noteStub("mutator", mutator)
		o.addResource(ref, &model.MutatorSpec{Command: &model.Command{Shell: "echo 'this mutator was not imported: write it' >&2; exit 1"}})
	}
	flow.Mutator = ref
}

// importPlugin imports a handler that runs a well-known program, such as sensu-slack-handler, as a built-in
// Muster handler. It returns false if the command stays, because it has templates of its own, needs the shell,
// or lacks a value.
func importPlugin(o *object, command string, h *model.HandlerSpec) bool {
	words := strings.Fields(command)
	if len(words) == 0 || strings.ContainsAny(command, "|;&<>`$\\'\"") || strings.Contains(command, "{{") {
		return false
	}
	args := commandFlags(words[1:])
	value := func(env string, names ...string) string {
		for _, n := range names {
			if v := args[n]; v != "" {
				return v
			}
		}
		return h.Env[env]
	}
	var missing string
	switch program := path.Base(words[0]); program {
	case "sensu-slack-handler", "slack-handler":
		if url := value("SLACK_WEBHOOK_URL", "webhook-url", "w"); url != "" {
			h.Slack = &model.Slack{URL: model.Secret{Text: url}}
		}
		missing = "the address (SLACK_WEBHOOK_URL)"
	case "sensu-mattermost-handler":
		if url := value("MATTERMOST_WEBHOOK_URL", "webhook-url", "w"); url != "" {
			h.Mattermost = &model.Mattermost{URL: model.Secret{Text: url}, Channel: value("", "channel", "c")}
		}
		missing = "the address"
	case "sensu-pagerduty-handler":
		if token := value("PAGERDUTY_TOKEN", "token", "t"); token != "" {
			h.PagerDuty = &model.PagerDuty{RoutingKey: model.Secret{Text: token}}
		}
		missing = "the token (PAGERDUTY_TOKEN)"
	case "sensu-opsgenie-handler":
		if auth := value("OPSGENIE_AUTHTOKEN", "auth", "a"); auth != "" {
			h.Opsgenie = &model.Opsgenie{APIKey: model.Secret{Text: auth}}
			if value("OPSGENIE_REGION", "region", "r") == "eu" {
				h.Opsgenie.Region = "eu"
			}
		}
		missing = "the token (OPSGENIE_AUTHTOKEN)"
	case "sensu-email-handler":
		host, from := value("", "smtpHost", "s"), value("", "fromEmail", "f")
		to := slices.DeleteFunc(strings.Split(value("", "toEmail", "t"), ","), func(s string) bool { return s == "" })
		if host != "" && from != "" && len(to) > 0 {
			h.Email = &model.Email{Server: host + ":" + cmp.Or(value("", "smtpPort", "P"), "587"), From: from, To: to,
				Username: value("SMTP_USERNAME", "smtpUsername", "u"), Password: model.Secret{Text: value("SMTP_PASSWORD", "smtpPassword", "p")}}
			if args["enableLoginAuth"] == "" && args["insecure"] != "" {
				h.Email.Security = "none"
			}
		}
		missing = "host, from and to"
	default:
		return false
	}
	if readsEvents(h) || h.Slack == nil && h.Mattermost == nil && h.PagerDuty == nil && h.Opsgenie == nil && h.Email == nil {
		o.noteChange("Muster has a built-in handler for this service, but the command has no value for %s: the handler stays a command", missing)
		return false
	}
	o.noteChange("%s became a handler of Muster, which is notified of problems by their ids; templates and other flags of the command are lost", path.Base(words[0]))
	return true
}

// commandFlags returns the values of given flags, such as -w and -c, in a command line. Flags have the forms -w X,
// --webhook-url X and --webhook-url=X, quoted or not.
func commandFlags(words []string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(words); i++ {
		name, ok := strings.CutPrefix(words[i], "-")
		if !ok {
			continue
		}
		name = strings.TrimPrefix(name, "-")
		value, has := "", false
		if name, value, has = strings.Cut(name, "="); !has && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			i++
			value, has = words[i], true
		}
		if !has {
			value = "true"
		}
		out[name] = strings.Trim(value, `"'`)
	}
	return out
}
