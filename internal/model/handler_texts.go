package model

import (
	"errors"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// ServiceText is one text of a handler's service.
type ServiceText struct {
	Field  string // pagerduty.routingKey
	Form   string // struct tag text: fixed (no variables), url (values are escaped), or empty
	Secret bool
	Value  string
}

// mapTexts returns a copy of v in which fn has replaced each text. Maps and lists are new; v does not change.
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

// MapTexts returns a copy of the handler in which fn has replaced each text of its service; command and webhook
// have none. It does not change s.
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

// HandlerService is one way to notify that a handler may name.
type HandlerService struct {
	Name  string // of its field
	index []int
}

// HandlerServices lists all services, in the order of HandlerSpec.
func HandlerServices() (list []HandlerService) {
	t := reflect.TypeFor[HandlerSpec]()
	for i := range t.NumField() {
		if f := t.Field(i); f.Type.Kind() == reflect.Pointer {
			list = append(list, HandlerService{jsonName(f), f.Index})
		}
	}
	return list
}

// Services lists the services that the handler names; a valid handler names one.
func (s *HandlerSpec) Services() (kinds []string) {
	for _, k := range HandlerServices() {
		if !reflect.ValueOf(s).Elem().FieldByIndex(k.index).IsNil() {
			kinds = append(kinds, k.Name)
		}
	}
	return kinds
}

// Expand replaces the variables in all texts of a handler by the values of a node. The error is a *MissingError,
// or a *TemplateError that Validate would have found.
func (s *HandlerSpec) Expand(values PropertyValues) (*HandlerSpec, error) {
	var failed error
	out := s.MapTexts(func(t ServiceText) string {
		if t.Form == "fixed" {
			return t.Value
		}
		parsed, err := ParseTemplate(t.Value, false)
		if err == nil {
			escape := inURL
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

// Reveal returns the handler with the values of all secrets. hidden are these values and all other texts that no
// output may show.
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
			if u, err := url.Parse(hook.URL); err == nil && len(u.RequestURI()) > 8 { // a word such as hook is no secret
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
		out.Env, err = revealed(out.Env, out.Secrets, read)
	}
	if err != nil {
		return nil, nil, err
	}
	hidden = append(hidden, hiddenIn(out.Env)...)
	return out, slices.DeleteFunc(hidden, func(s string) bool { return s == "" }), nil
}
