package sensuctl

import "net/http"

// operation returns the operation for a method and a path; nil: Muster has another command for it, or none.
func (s *Server) operation(method string, r *request) operation {
	depth := len(r.names)
	t, known := types[r.kind]
	switch {
	case t.objects != nil && r.group == t.group:
		return byMethod(method, depth, s.listCollection, s.oneOfCollection, nil, s.putInCollection, nil)
	case r.namespace == "" && r.kind != "namespaces" && (method != http.MethodGet || depth > 0):
		return nil
	case r.kind == "events" && r.group == "core/v2":
		return s.eventOperation(method, depth)
	case !known || t.kind == "" || r.group != t.group:
		return nil
	case isHookChange(method, r):
		return s.changeHooks
	case r.kind == "silenced":
		if method == http.MethodGet && depth == 2 && (r.names[0] == "subscriptions" || r.names[0] == "checks") {
			return s.silences
		}
		return byMethod(method, depth, s.silences, s.oneSilence, s.putSilence, s.putSilence, s.deleteSilence)
	case r.kind == "entity-states":
		return byMethod(method, depth, s.list, s.one, nil, s.putState, nil)
	case t.group == "core/v3":
		return byMethod(method, depth, s.list, s.one, nil, s.put, nil)
	case t.deletable:
		return byMethod(method, depth, s.list, s.one, s.put, s.put, s.remove)
	}
	return byMethod(method, depth, s.list, s.one, s.put, s.put, nil)
}

// byMethod chooses an operation for a collection (list, create) or one resource (get, replace, remove).
func byMethod(method string, depth int, list, get, create, replace, remove operation) operation {
	switch {
	case method == http.MethodGet && depth == 0:
		return list
	case method == http.MethodGet && depth == 1:
		return get
	case method == http.MethodPost && depth == 0:
		return create
	case method == http.MethodPut && depth == 1:
		return replace
	case method == http.MethodDelete && depth == 1:
		return remove
	}
	return nil
}

// eventOperation chooses the operation for events: events, events/ENTITY or events/ENTITY/CHECK.
func (s *Server) eventOperation(method string, depth int) operation {
	switch {
	case method == http.MethodGet && depth < 2:
		return s.events
	case depth != 2:
		return nil
	case method == http.MethodGet:
		return s.event
	case method == http.MethodPut:
		return s.putEvent
	case method == http.MethodDelete:
		return s.deleteEvent
	}
	return nil
}
