// Package access authorizes requests: a subject (a user, through a session or a token) has
// grants, an operation needs a verb on a kind, in a namespace or in all of them.
//
// In: names, passwords, tokens, and the Need that an operation of the API declares. Out: a Subject, its namespaces,
// and errors of the classes Unauthenticated and Forbidden. Users and tokens are rows of the intent database (kinds
// user and token); their bodies stay out of the record of changes.
//
// Goroutines: one for each program's password under comparison, which ends with it. Lock order:
// Service.accountsMu (a change of users, from decision to write), then Service.writeMu (from the row to the index),
// then index.mu (look-ups). A goroutine holds no other lock with programPasswordCache.mu.
//
// Start reading at Grants (the meaning of roles), then Need, Subject and Service.
package access
