// Package access decides who may do what, by the policy file. The file says what roles
// allow and deny, who has which role, which conditions hold for arguments, which calls a
// person has to approve, and which limits the package limit applies. A target is denied
// if no rule allows it, or if any rule denies it, even if another one allows it.
//
// A policy never changes: when its file changes, it is read again as a whole (Live).
// Start with Policy.Decide, which applies the rules, and Live.Authorize, which is the
// gateway's question about each call.
//
// The edge uses several words for "may":
//
//   - allow, deny: a rule of a role about a target (Decide).
//   - authorize: the decision on one call, by rules and conditions (Authorize).
//   - access: all of it together: this package, and gateway.Access as its interface.
//   - grant: what a service, not a caller, may do: the names that it may offer, the tools
//     that it may call, and its powers (Service, catalogue.Grants). A toolset grants nothing.
//   - approve: a person's consent to one call that the policy or the tool requires it for
//     (Approval, MayApprove). To waive is to decide that none is required.
//   - admit: to let a request in because its credentials are good (gateway.Admit), or a
//     call because there is room for it (gateway.Limiter). It says nothing about the target.
//   - permit: the edge's last yes, right before an instance of a service begins a call that
//     may have an effect (gateway.Permit). It is about room and repetition, not about rights.
package access
