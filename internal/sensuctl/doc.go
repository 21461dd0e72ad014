// Package sensuctl serves the HTTP API of a Sensu Go 6 backend, so that an unmodified sensuctl works with Muster.
//
// Input: requests to /auth, /version, /health and /api/core/v2, /api/core/v3 (server.go). Output: requests to Muster's own
// API in the same process with the caller's token (client.InProcess), which decides on permissions, limits and guards.
//
// One table (resource_types.go) has a row per type: group, kind, form, fields of selectors, Muster's commands. server.go maps a
// method and a path to a function by it.
//
// Reads: a request (read_requests.go) writes resources in Sensu's forms (convert_to_sensu.go, entity_conversion.go, silence_requests.go, event_requests.go).
// Writes: a document (document_conversion.go) is imported by sensuimport and replaces the resource whole (write_requests.go), if that is
// expressible in Sensu's forms and belongs to nobody or to the owner "sensu" (document_conversion.go). Everything else is answered
// 501 with the command of Muster to type (resource_types.go).
//
// No goroutines, no locks. Start reading at Server.ServeHTTP in server.go.
package sensuctl
