package model

import "reflect"

// A handler names Secrets wherever a key, a password or a secret address stands, and in the
// environment of its command. The server reads them when it sends: they stand in no row, no
// message and no log.

// eachSecret visits all secret texts of a handler. The server reads them when it sends: they stand in no row,
// message or log.
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

// NamedSecret is a reference of a handler or mutator to a Secret.
type NamedSecret struct {
	Field string // where
	Ref   string // as it is written
}

// NamedSecrets returns all Secrets that the handler names.
func (s *HandlerSpec) NamedSecrets() (list []NamedSecret) {
	_ = s.eachSecret(func(field string, secret *Secret) error {
		if secret.Named != "" {
			list = append(list, NamedSecret{field + ".secret", secret.Named})
		}
		return nil
	})
	return append(list, namedIn(s.Secrets)...)
}

// QualifyReferences changes the Secrets and Assets of the handler to NAMESPACE/NAME: senders know no namespace.
func (s *HandlerSpec) QualifyReferences(namespace string) {
	whole := func(ref string) string { return QualifyRef(namespace, ref) }
	for i, name := range s.Assets {
		s.Assets[i] = whole(name)
	}
	_ = s.eachSecret(func(_ string, secret *Secret) error {
		if secret.Named != "" {
			secret.Named = whole(secret.Named)
		}
		return nil
	})
	s.Secrets = wholeSecrets(namespace, s.Secrets)
}
