package model

import (
	"embed"
	"reflect"
	"strings"
)

// SpecSource holds the Go files that declare the specs of resources: their comments are the text of
// muster explain and of docs/reference/resources.md.
//
//go:embed resource.go handler_services.go routing.go sensu_kinds.go secret_spec.go asset.go
var SpecSource embed.FS

var (
	commandType = reflect.TypeFor[Command]()
	secretType  = reflect.TypeFor[Secret]()
)

// jsonName returns the name of a field in JSON.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
