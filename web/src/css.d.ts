// Style sheets are bundled, and export nothing.
declare module "*.css";
