package op

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/version"
)

// newHumaConfig returns the configuration of huma, the HTTP framework. Errors have the form of RFC 9457, and
// documentation pages are off.
func newHumaConfig() huma.Config {
	boundedJSON := huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: unmarshalBody}
	registry := huma.NewMapRegistry("#/components/schemas/", schemaName)
	for _, t := range []reflect.Type{
		reflect.TypeFor[model.Duration](), reflect.TypeFor[model.Size](), // durations and sizes are written with units
	} {
		registry.RegisterTypeAlias(t, reflect.TypeFor[string]())
	}
	registry.RegisterTypeAlias(reflect.TypeFor[model.Command](), reflect.TypeFor[any]())        // a command is a text or a list
	registry.RegisterTypeAlias(reflect.TypeFor[model.Secret](), reflect.TypeFor[any]())         // a secret is a text, or a reference to its source
	registry.RegisterTypeAlias(reflect.TypeFor[model.ParameterValue](), reflect.TypeFor[any]()) // the value of a parameter is a text, list or map
	c := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Muster", Version: version.Get().Version,
				Description: "Errors are RFC 9457 problems with a hint: the command to type. Lists have pages: pass next as after. With a condition (where) a page may be short or empty and still have a next. " +
					"The answer is 412 if the resource does not match If-Match or If-None-Match, and 428 if the change affects more nodes than maxAffected and does not have yes.",
				License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
			},
			Components: &huma.Components{
				Schemas: registry,
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"bearer": {Type: "http", Scheme: "bearer", Description: "The token of a login or an API token."},
				},
			},
			Security: []map[string][]string{{"bearer": {}}},
		},
		Formats:       map[string]huma.Format{"application/json": boundedJSON, "json": boundedJSON},
		DefaultFormat: "application/json",
		Transformers:  []huma.Transformer{convertHumaError},
	}
	c.RejectUnknownQueryParameters = true
	return c
}

// maxBodyValues bounds the values in the JSON body of a request, because each takes many times the memory of its text.
const maxBodyValues = 50_000 // 10,000 names of resources have 40,000

// unmarshalBody decodes the JSON body of a request, and refuses a body with too many values.
func unmarshalBody(data []byte, v any) error {
	values := 0
	for _, separator := range []string{",", "{", "["} {
		values += bytes.Count(data, []byte(separator))
	}
	if values > maxBodyValues {
		return fmt.Errorf("the body has %d values, at most %d are allowed: send it in several parts", values, maxBodyValues)
	}
	return huma.DefaultJSONFormat.Unmarshal(data, v)
}

// schemaName returns the name of a Go type for the OpenAPI document. The names of generic types are readable, too.
func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return huma.DefaultSchemaNamer(t, hint)
}

// errorClasses returns the classes of errors that an operation can return, for the OpenAPI document.
func errorClasses(op *huma.Operation) []model.Class {
	out := []model.Class{model.Internal, model.Invalid, model.Unauthenticated, model.Unavailable}
	if op.Method != http.MethodGet && op.OperationID != "login" && op.OperationID != "logout" {
		out = append(out, model.Forbidden)
	}
	if op.RequestBody != nil {
		out = append(out, model.TooLarge)
	}
	for _, p := range op.Parameters {
		switch {
		case p.In == "path":
			out = append(out, model.NotFound)
		case p.Name == "after":
			out = append(out, model.Conflict)
		case p.Name == "If-Match":
			out = append(out, model.Stale)
		}
	}
	for _, status := range op.Errors {
		out = append(out, model.ClassOfHTTP(status))
	}
	return out
}

// HandleOpenAPIDocument serves the OpenAPI document of the registered operations. It is encoded at the
// first request, because the encoding costs more than the rest of the API's start.
func HandleOpenAPIDocument(api huma.API, mux *http.ServeMux) {
	page := api.OpenAPI()
	errorSchema := page.Components.Schemas.Schema(reflect.TypeFor[v1.Error](), true, "Error")
	for _, path := range page.Paths {
		for _, op := range []*huma.Operation{path.Get, path.Put, path.Post, path.Delete} {
			if op == nil {
				continue
			}
			for status := range op.Responses {
				if strings.HasPrefix(status, "4") || strings.HasPrefix(status, "5") {
					delete(op.Responses, status)
				}
			}
			said := func(description string) *huma.Response {
				return &huma.Response{Description: description, Content: map[string]*huma.MediaType{"application/problem+json": {Schema: errorSchema}}}
			}
			for _, class := range errorClasses(op) {
				op.Responses[strconv.Itoa(class.HTTP())] = said(classTitles[class])
			}
			op.Responses["default"] = said("Any other error")
		}
	}
	serve := func(pattern, contentType string, encode func() ([]byte, error)) {
		data := sync.OnceValue(func() []byte {
			data, err := encode()
			if err != nil {
				panic("BUG: the OpenAPI page cannot be encoded: " + err.Error())
			}
			return data
		})
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = w.Write(data())
		})
	}
	serve("GET /api/v1/openapi.json", "application/openapi+json", func() ([]byte, error) { return json.MarshalIndent(page, "", "  ") })
	serve("GET /api/v1/openapi.yaml", "application/openapi+yaml", page.YAML)
}
