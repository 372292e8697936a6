package routes

// RouteIdle is when the route of a node is checked.
const RouteIdle = routeIdle

// Size returns how many nodes are open.
func (r *Router) Size() int { return len(r.every()) }
