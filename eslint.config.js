import tseslint from "typescript-eslint";

const ambientTime =
  "Time and randomness are injected (Clock, Random): ambient ones live in system-clock.ts and prng.ts only.";
const banned = [
  ["Date", "now"],
  ["performance", "now"],
  ["Math", "random"],
].map(([object, property]) => ({ object, property, message: ambientTime }));
const bannedGlobals = ["setTimeout", "setInterval"].map((name) => ({ name, message: ambientTime }));

export default tseslint.config(
  {
    ignores: [
      "**/dist/**",
      "docs/site/**",
      "temp/**",
      "**/node_modules/**",
      "scripts/**",
      "api/**",
      "**/*.js",
      "**/*.cjs",
      "**/*.mjs",
    ],
  },
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { project: "tsconfig.json", tsconfigRootDir: import.meta.dirname } },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "@typescript-eslint/no-floating-promises": ["error", { ignoreVoid: true }],
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true, allowBoolean: true }],
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/no-unnecessary-condition": ["error", { allowConstantLoopConditions: true }],
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/switch-exhaustiveness-check": "error",
      "no-restricted-syntax": [
        "error",
        { selector: "ExportAllDeclaration", message: "Exports are a hand-written list; never `export *`." },
      ],
    },
  },
  {
    files: ["packages/*/src/**/*.ts"],
    ignores: ["**/system-clock.ts", "**/prng.ts"],
    rules: {
      "no-restricted-properties": ["error", ...banned],
      "no-restricted-globals": ["error", ...bannedGlobals],
      "no-console": "error",
    },
  },
  {
    files: ["**/test/**/*.ts", "tests/**/*.ts", "bench/**/*.ts", "examples/**/*.ts"],
    rules: {
      "@typescript-eslint/no-non-null-assertion": "off",
      "@typescript-eslint/require-await": "off",
      "@typescript-eslint/unbound-method": "off",
    },
  },
);
