"""From an API Gateway event to one service call and back: routes, tokens, bodies, errors."""
