package sensuctl

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (s *Server) checks(ctx context.Context, r *request) (answer, error) {
	return s.list(ctx, r, "Check", checkConfig)
}

func (s *Server) check(ctx context.Context, r *request) (answer, error) {
	m, err := resource(ctx, r, "Check", r.namespace, r.name(0))
	if err != nil {
		return answer{}, err
	}
	return answer{http.StatusOK, checkConfig(m), ""}, nil
}

// checkConfig is a check as a CheckConfig. What Sensu has no word for is left out.
func checkConfig(m *model.Resource) object {
	c, ok := m.Spec.(*model.CheckSpec)
	if !ok {
		return nil
	}
	o := object{
		"metadata": metadata(m), "command": commandText(c.Command), "handlers": []string{}, "high_flap_threshold": 0, "low_flap_threshold": 0,
		"interval": seconds(c.Interval), "publish": !c.Disabled && !c.Passive, "runtime_assets": orElse(c.Assets), "subscriptions": subscriptions(c.Targets),
		"proxy_entity_name": "", "check_hooks": hookLists(c.Hooks), "stdin": false, "subdue": subdued(c.Schedule), "ttl": seconds(c.TTL), "timeout": seconds(c.Timeout),
		"round_robin": c.RoundRobin, "output_metric_format": "", "output_metric_handlers": []string{}, "env_vars": lines(c.Env), "secrets": []object{},
		"pipelines": references("Pipeline", c.Pipelines),
	}
	if cron := cronOf(c); cron != "" {
		o["cron"] = cron
	}
	if c.Probe != nil {
		o["command"] = "(probe " + c.Probe.Name + " of muster-agent)"
	}
	if c.MaxOutput > 0 {
		o["max_output_size"] = int64(c.MaxOutput)
	}
	if c.DiscardOutput {
		o["discard_output"] = true
	}
	if a := c.Alert; a != nil {
		o["handlers"] = orElse(a.Handlers)
		if f := a.Flapping; f != nil {
			o["high_flap_threshold"], o["low_flap_threshold"] = f.Start, f.End
			if f.End == 0 {
				o["low_flap_threshold"] = f.Start / 2
			}
		}
	}
	if p := c.Proxy; p != nil && len(p.Nodes) == 1 && len(p.Groups) == 0 && p.Where == "" {
		o["proxy_entity_name"] = p.Nodes[0]
	}
	if requests := proxyRequests(c); requests != nil {
		o["proxy_requests"] = requests
	}
	if c.Metrics != nil {
		o["output_metric_format"] = metricFormats[c.Metrics.Format]
		if len(c.Metrics.Tags) > 0 {
			o["output_metric_tags"] = metricTags(c.Metrics.Tags)
		}
	}
	if len(c.Thresholds) > 0 {
		o["output_metric_thresholds"] = thresholds(c.Thresholds)
	}
	for _, secret := range c.Secrets {
		o["secrets"] = append(o["secrets"].([]object), object{"name": secret.Env, "secret": secret.Secret})
	}
	return o
}

var metricFormats = map[string]string{
	"nagios": "nagios_perfdata", "graphite": "graphite_plaintext", "influxdb": "influxdb_line", "opentsdb": "opentsdb_line", "prometheus": "prometheus_text",
}

// hookTypes are Sensu's words for after which results a hook runs.
var hookTypes = map[string]string{"non-ok": "non-zero", "ok": "ok", "warning": "warning", "critical": "critical", "unknown": "unknown"}

func hookLists(hooks []model.Hook) []object {
	by := map[string][]string{}
	for _, h := range hooks {
		if h.Hook == "" {
			continue // its command stands in the check
		}
		for _, when := range h.When {
			kind := when
			if t, ok := hookTypes[when]; ok {
				kind = t
			}
			by[kind] = append(by[kind], h.Hook)
		}
	}
	out := []object{}
	for _, kind := range sorted(by) {
		out = append(out, object{kind: by[kind]})
	}
	return out
}

func references(kind string, names []string) []object {
	out := []object{}
	for _, name := range names {
		out = append(out, object{"name": name, "type": kind, "api_version": "core/v2"})
	}
	return out
}
