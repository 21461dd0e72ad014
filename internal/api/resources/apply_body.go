package resources

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// The body of an apply is read here, because huma would build a tree of all of it before its size
// is checked. Memory follows the resources that are kept.
const (
	maxResources = 10_000
	maxResource  = 512 << 10 // bytes of one resource
	maxFields    = 20        // besides the resources
)

// applyBody reads the request and calls take with each resource, which the result leaves out. An
// error of take ends the reading.
func (s *request) applyBody(data []byte, take func(i int, raw json.RawMessage) error) (v1.ApplyRequest, error) {
	var r v1.ApplyRequest
	dec := json.NewDecoder(bytes.NewReader(data))
	rest := map[string]any{} // without the resources, for huma's validation
	if token, err := dec.Token(); err != nil {
		return r, notJSON(err)
	} else if token != json.Delim('{') {
		return r, model.Errorf(model.Invalid, "the body is no JSON object").WithHint("what is right: /api/v1/openapi.json")
	}
	n := 0
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return r, notJSON(err)
		}
		name, _ := key.(string)
		if _, twice := rest[name]; twice {
			return r, model.Errorf(model.Invalid, "%q stands twice in the body", name)
		}
		if name != "resources" {
			if len(rest) > maxFields {
				return r, model.Errorf(model.Invalid, "the body has more than %d fields", maxFields).WithHint("what is right: /api/v1/openapi.json")
			}
			var value any
			if err := dec.Decode(&value); err != nil {
				return r, notJSON(err)
			}
			rest[name] = value
			continue
		}
		if n, err = eachResource(dec, take); err != nil {
			return r, err
		}
		rest[name] = make([]any, min(n, 1))
	}
	if _, err := dec.Token(); err != nil {
		return r, notJSON(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return r, model.Errorf(model.Invalid, "something follows the JSON object of the body")
	}
	return r, s.applyFields(rest, &r)
}

func eachResource(dec *json.Decoder, take func(int, json.RawMessage) error) (n int, err error) {
	if token, err := dec.Token(); err != nil || token != json.Delim('[') {
		return 0, model.Errorf(model.Invalid, "resources: want a list")
	}
	for dec.More() {
		if n++; n > maxResources {
			return n, model.Errorf(model.TooLarge, "more than %d resources in one apply", maxResources).WithHint("apply them in several parts")
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return n, notJSON(err)
		}
		if len(raw) > maxResource {
			return n, model.Errorf(model.TooLarge, "resource %d has %d bytes, at most %d", n, len(raw), maxResource).
				WithHint("keep what is long in files on the nodes")
		}
		if err := take(n, raw); err != nil {
			return n, err
		}
	}
	_, err = dec.Token()
	if err != nil {
		return n, notJSON(err)
	}
	return n, nil
}

func notJSON(err error) error { return huma.Error400BadRequest("the body is not JSON: " + err.Error()) }

// applyFields validates all fields but the resources by the schema of the OpenAPI document.
func (s *request) applyFields(rest map[string]any, r *v1.ApplyRequest) error {
	registry := s.Huma.OpenAPI().Components.Schemas
	schema := registry.Schema(reflect.TypeFor[v1.ApplyRequest](), true, "ApplyRequest")
	var result huma.ValidateResult
	huma.Validate(registry, schema, huma.NewPathBuffer([]byte("body"), 4), huma.ModeWriteToServer, rest, &result)
	if len(result.Errors) > 0 {
		return huma.Error422UnprocessableEntity("validation failed", result.Errors...)
	}
	delete(rest, "resources")
	data, err := json.Marshal(rest)
	if err == nil {
		err = json.Unmarshal(data, r)
	}
	if err != nil {
		return fmt.Errorf("read the fields of an apply: %w", err)
	}
	return nil
}

// applyRequestBody describes the body in the OpenAPI document.
func applyRequestBody(registry huma.Registry) *huma.RequestBody {
	return &huma.RequestBody{Required: true, Content: jsonContent(registry.Schema(reflect.TypeFor[v1.ApplyRequest](), true, "ApplyRequest"))}
}
