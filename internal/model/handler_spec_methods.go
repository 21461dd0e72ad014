package model

import (
	"errors"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// ServiceText is one text setting of a handler's service, such as pagerduty.routingKey, with its value
type ServiceText struct {
	Field  string // pagerduty.routingKey
	Form   string // struct tag text: fixed (no variables), url (values are escaped), or empty
	Secret bool
	Value  string
}

// mapTexts returns a deep copy of a value in which fn has replaced each text. v does not change.
func mapTexts(v reflect.Value, at ServiceText, fn func(ServiceText) string) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch {
	case v.Type() == secretType:
		s := v.Interface().(Secret)
		at.Secret, at.Value = true, s.Text
		if s.Text != "" {
			s.Text = fn(at)
		}
		return reflect.ValueOf(s)
	case v.Kind() == reflect.String:
		if at.Value = v.String(); at.Value != "" {
			out.SetString(fn(at))
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		out.Set(reflect.New(v.Type().Elem()))
		out.Elem().Set(mapTexts(v.Elem(), at, fn))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			f, inner := v.Type().Field(i), at
			inner.Field, inner.Form = strings.TrimPrefix(at.Field+"."+jsonName(f), "."), f.Tag.Get("text")
			out.Field(i).Set(mapTexts(v.Field(i), inner, fn))
		}
	case v.Kind() == reflect.Slice && !v.IsNil():
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(mapTexts(v.Index(i), at, fn))
		}
	case v.Kind() == reflect.Map && !v.IsNil():
		out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
		for it := v.MapRange(); it.Next(); {
			inner := at
			inner.Field += "." + it.Key().String()
			out.SetMapIndex(it.Key(), mapTexts(it.Value(), inner, fn))
		}
	}
	return out
}

// MapTexts returns a copy of the handler in which fn has replaced each text of the handler's service. The texts
// of command and webhook stay. It does not change s.
func (s *HandlerSpec) MapTexts(fn func(ServiceText) string) *HandlerSpec {
	out := *s
	v := reflect.ValueOf(&out).Elem()
	for _, name := range HandlerServices() {
		f := v.FieldByIndex(name.index)
		if name.Name == "command" || name.Name == "webhook" || f.IsNil() {
			continue
		}
		f.Set(mapTexts(f, ServiceText{Field: name.Name}, fn))
	}
	return &out
}

// HandlerService describes one service that a handler can use, such as pagerduty or email
type HandlerService struct {
	Name  string // name of its field in the spec
	index []int
}

// HandlerServices returns all services that handlers can use, in the order of the fields in HandlerSpec
func HandlerServices() (list []HandlerService) {
	t := reflect.TypeFor[HandlerSpec]()
	for i := range t.NumField() {
		if f := t.Field(i); f.Type.Kind() == reflect.Pointer {
			list = append(list, HandlerService{jsonName(f), f.Index})
		}
	}
	return list
}

// Services returns the names of the services that the handler configures. A valid handler has one.
func (s *HandlerSpec) Services() (kinds []string) {
	for _, k := range HandlerServices() {
		if !reflect.ValueOf(s).Elem().FieldByIndex(k.index).IsNil() {
			kinds = append(kinds, k.Name)
		}
	}
	return kinds
}

// Expand replaces the template variables in a handler's settings by the property values of a node. The error is a
// *MissingError, or a *TemplateError that Validate would have found.
func (s *HandlerSpec) Expand(values PropertyValues) (*HandlerSpec, error) {
	var failed error
	out := s.MapTexts(func(t ServiceText) string {
		if t.Form == "fixed" {
			return t.Value
		}
		parsed, err := ParseTemplate(t.Value, false)
		if err == nil {
			escape := escapeForURL
			if t.Form != "url" {
				escape = nil
			}
			t.Value, err = parsed.expand(values, escape)
		}
		failed = errors.Join(failed, err)
		return t.Value
	})
	command, err := TemplateTexts{Command: s.Command, Env: s.Env}.Parse()
	if err != nil {
		return nil, err
	}
	x, err := command.Expand(values)
	failed = errors.Join(failed, err)
	out.Env = x.Env
	if s.Command != nil {
		out.Command = &Command{Shell: x.Shell, Argv: x.Argv}
	}
	if s.Webhook != nil {
		if out.Webhook, err = s.Webhook.Expand(values); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	return out, failed
}

// Reveal returns a copy of the handler that contains the secret values. hidden holds these values and all other texts
// that no output may show.
func (s *HandlerSpec) Reveal(read func(Secret) (string, error)) (out *HandlerSpec, hidden []string, err error) {
	out = s.MapTexts(func(t ServiceText) string { return t.Value }) // a copy
	v := reflect.ValueOf(out).Elem()
	for _, k := range HandlerServices() {
		f := v.FieldByIndex(k.index)
		if f.IsNil() {
			continue
		}
		if k.Name == "webhook" {
			hook := *out.Webhook
			out.Webhook = &hook
			for _, value := range hook.Headers {
				hidden = append(hidden, value)
			}
			if u, err := url.Parse(hook.URL); err == nil && len(u.RequestURI()) > 8 { // a short word such as hook is no secret
				hidden = append(hidden, strings.TrimPrefix(u.RequestURI(), "/"), u.User.String())
			}
		}
	}
	err = out.eachSecret(func(field string, secret *Secret) (err error) {
		if secret.IsZero() {
			return nil
		}
		value := secret.Text
		if value == "" {
			if value, err = read(*secret); err != nil {
				return Errorf(Invalid, "spec.%s: %w", field, err)
			}
		}
		*secret = Secret{Text: value}
		hidden = append(hidden, value)
		return nil
	})
	if err == nil {
		out.Env, err = environmentWithSecrets(out.Env, out.Secrets, read)
	}
	if err != nil {
		return nil, nil, err
	}
	hidden = append(hidden, environmentValues(out.Env)...)
	return out, slices.DeleteFunc(hidden, func(s string) bool { return s == "" }), nil
}

// A handler names Secrets wherever a key, a password or a secret address stands, and in the environment of its
// command. The server reads them when it sends: they stand in no row, no message and no log.

// eachSecret calls fn for each secret in the settings of the handler's service. The server reads them when it
// sends: they stand in no row, message or log.
func (s *HandlerSpec) eachSecret(visit func(field string, secret *Secret) error) error {
	v := reflect.ValueOf(s).Elem()
	for _, k := range HandlerServices() {
		f := v.FieldByIndex(k.index)
		if f.IsNil() || f.Elem().Kind() != reflect.Struct || f.Elem().Type() == commandType {
			continue
		}
		for i := range f.Elem().NumField() {
			if field := f.Elem().Field(i); field.Type() == secretType {
				if err := visit(k.Name+"."+jsonName(f.Elem().Type().Field(i)), field.Addr().Interface().(*Secret)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// QualifyReferences writes the handler's references to Secrets and Assets as NAMESPACE/NAME. The form NAMESPACE/NAME
// lets other code resolve them.
func (s *HandlerSpec) QualifyReferences(namespace string) {
	s.Secrets = slices.Clone(s.Secrets)
	qualifyReferences(s, namespace)
}

// environmentWithSecrets returns a copy of a command's environment variables, with variables added for the
// command's secrets.
func environmentWithSecrets(env map[string]string, secrets []CommandSecret, read func(Secret) (string, error)) (map[string]string, error) {
	if len(secrets) == 0 {
		return env, nil
	}
	all := maps.Clone(env)
	if all == nil {
		all = map[string]string{}
	}
	for i, one := range secrets {
		value, err := read(Secret{SecretName: one.Secret})
		if err != nil {
			return nil, Errorf(Invalid, "spec.secrets[%d]: %w", i, err)
		}
		all[one.Env] = value
	}
	return all, nil
}

// environmentValues returns the values of all environment variables, so that a command's output can be searched
// for secrets.
func environmentValues(env map[string]string) (hidden []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if env[name] != "" {
			hidden = append(hidden, env[name])
		}
	}
	return hidden
}

// QualifyReferences returns a copy of the mutator in which references are written NAMESPACE/NAME. The references to
// Secrets and Assets get the form NAMESPACE/NAME, so that other code can resolve them. It does not change s.
func (s *MutatorSpec) QualifyReferences(namespace string) *MutatorSpec {
	out := *s
	out.Secrets = slices.Clone(s.Secrets)
	qualifyReferences(&out, namespace)
	return &out
}

// Reveal returns a copy of the mutator whose environment contains the secret values. hidden are all values of that
// environment. It does not change s.
func (s *MutatorSpec) Reveal(read func(Secret) (string, error)) (out *MutatorSpec, hidden []string, err error) {
	with := *s
	if with.Env, err = environmentWithSecrets(s.Env, s.Secrets, read); err != nil {
		return nil, nil, err
	}
	return &with, environmentValues(with.Env), nil
}

// ProblemService returns the handler's service that accepts only problems, such as PagerDuty, or an empty text.
// It is empty for a handler that accepts any message.
func (s *HandlerSpec) ProblemService() string {
	switch {
	case s.PagerDuty != nil:
		return "PagerDuty"
	case s.Opsgenie != nil:
		return "Opsgenie"
	case s.Alertmanager != nil:
		return "Alertmanager"
	}
	return ""
}
