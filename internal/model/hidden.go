package model

import (
	"slices"
	"strings"
)

// Hidden stands where a secret is that the reader may not see.
const Hidden = "(hidden)"

// Redacted is the resource as somebody sees it who may only look: the places where
// people keep secrets (values of environments and headers, standard input, every Secret that is written
// out, what follows the host in a webhook's address, and the query in an archive's) are Hidden. r is not changed.
func Redacted(r *Resource) *Resource {
	out := *r
	switch spec := r.Spec.(type) {
	case *CheckSpec:
		hidden := *spec
		hidden.Env = hide(spec.Env)
		if spec.Stdin != "" {
			hidden.Stdin = Hidden
		}
		out.Spec = &hidden
	case *MutatorSpec:
		hidden := *spec
		hidden.Env = hide(spec.Env)
		out.Spec = &hidden
	case *HandlerSpec:
		hidden := spec.mapServices(func(t fieldText) string {
			if t.secret {
				return ShownURL(t.value)
			}
			return t.value
		})
		hidden.Env = hide(spec.Env)
		if spec.Webhook != nil {
			hook := *spec.Webhook
			hook.URL, hook.Headers = ShownURL(hook.URL), hide(hook.Headers)
			for _, s := range []*Secret{&hook.Secret, &hook.Token} {
				if s.Text != "" {
					s.Text = Hidden
				}
			}
			hidden.Webhook = &hook
		}
		out.Spec = hidden
	case *AssetSpec:
		hidden := *spec
		hidden.Builds = slices.Clone(spec.Builds)
		for i := range hidden.Builds {
			hidden.Builds[i].URL = ShownPlace(hidden.Builds[i].URL)
		}
		out.Spec = &hidden
	}
	return &out
}

func hide(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	out := make(map[string]string, len(m))
	for name := range m {
		out[name] = Hidden
	}
	return out
}

// ShownURL leaves scheme and host: what follows may be a secret. The address may hold variables, so it is no URL yet.
func ShownURL(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return Hidden
	}
	host := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		host = rest[:end]
	}
	more := rest[len(host):]
	host = host[strings.LastIndexByte(host, '@')+1:]
	if more == "" || more == "/" {
		return scheme + "://" + host + more
	}
	return scheme + "://" + host + "/" + Hidden
}

// ShownPlace leaves an address up to its query, where tokens and signatures are.
func ShownPlace(address string) string {
	if place, _, ok := strings.Cut(address, "?"); ok {
		return place + "?" + Hidden
	}
	return address
}

// hidden finds what somebody applies who could not see it.
func (v *validator) hidden(field, value string) {
	if strings.Contains(value, Hidden) {
		v.flaw(field, "write the real one, or read it as somebody who may change it", "%s stands for a value that was not shown", Hidden)
	}
}
