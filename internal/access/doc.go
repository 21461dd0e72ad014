// Package access authorizes requests: a subject (a user, through a session or a token) has
// grants, an operation needs a verb on a kind, in a namespace or in all of them.
//
// In: names, passwords, tokens, and the Need that an operation of the API declares. Out: a Subject, its namespaces,
// and errors of the classes Unauthenticated and Forbidden. Users and tokens are rows of the intent database (kinds
// user and token); their bodies stay out of the record of changes.
//
// Goroutines: one for each program's password under comparison, which ends with it. Locks, in the
// order in which they are taken: Service.accountsMu (a change of users, from decision to write),
// Service.writeMu (from the row to the index), index.mu (look-ups). programPasswordCache.mu is taken alone.
//
// Start reading at Grants (the meaning of roles), then Need, Subject and Service.
package access
